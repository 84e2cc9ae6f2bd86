"""`manta upgrade` on the embedded server: it begins an upgrade, follows it, and ends with it."""

from __future__ import annotations

import asyncio

import pytest

from manta.cli.upgrade import Screen, _set_image, watch
from support.rayservice import World, a_world, is_ready, operator
from support.rayservice_objects import cluster_config
from support.virtual import virtually

NEXT = "rayproject/ray:2.61.0"


async def follow(world: World, seconds: float = 300) -> int:
    return await watch(world.client, world.key, Screen(live=False), seconds)


def test_an_upgrade_is_followed_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    @virtually
    async def scenario() -> None:
        async with a_world() as world, operator(world):
            await world.create()
            old = (await world.until(is_ready)).status.active_service_status.ray_cluster_name
            await _set_image(world.client, world.key, NEXT, "2.61.0")
            assert await follow(world) == 0
            service = await world.service()
            assert service.status.active_service_status.ray_cluster_name != old
            assert service.spec.ray_cluster_config.ray_version == "2.61.0"
            images = {
                one["spec"]["containers"][0]["image"]
                for one in await world.pods()
                if one["metadata"]["labels"]["ray.io/cluster"] != old
            }
            assert images == {NEXT}

    scenario()
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"rayservice/demo is asked for {NEXT}"
    assert any("is being upgraded" in one and "DEPLOYING" in one for one in told)
    assert "nothing is left to do" in told[-1]
    assert len(told) == len(set(told)), "each change is said once"


def test_an_application_that_never_starts_is_named_when_the_time_is_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @virtually
    async def scenario() -> None:
        async with a_world(deploy_after=None) as world, operator(world):
            await world.create()
            assert await follow(world, 60) == 1

    scenario()
    last = capsys.readouterr().out.splitlines()[-1]
    assert "not over within 60 s" in last
    assert 'application "app" is DEPLOYING' in last


def test_a_spec_that_cannot_be_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    @virtually
    async def scenario() -> None:
        async with a_world() as world, operator(world):
            await world.create()
            await world.until(is_ready)
            await world.edit(serveConfigV2="applications: [")
            assert await follow(world, 60) == 1

    scenario()
    assert "failed: " in capsys.readouterr().out.splitlines()[-1]


def test_a_service_that_is_deleted_ends_the_watch(capsys: pytest.CaptureFixture[str]) -> None:
    from manta.api.ray.resources import RAY_SERVICES
    from manta.kube.errors import MantaError

    @virtually
    async def scenario() -> None:
        async with a_world(deploy_after=None) as world, operator(world):
            await world.create()
            following = asyncio.create_task(follow(world))
            await asyncio.sleep(5)
            await world.client.delete(RAY_SERVICES, world.key)
            with pytest.raises(MantaError, match="was deleted"):
                await following

    scenario()
    assert capsys.readouterr().out


@virtually
async def test_workers_of_every_group_get_the_image() -> None:
    config = cluster_config()
    [first] = config["workerGroupSpecs"]
    config["workerGroupSpecs"] = [first, {**first, "groupName": "second"}]
    async with a_world() as world:
        await world.create(rayClusterConfig=config)
        await _set_image(world.client, world.key, NEXT, None)
        made = (await world.service()).spec.ray_cluster_config
        templates = [made.head_group_spec.template]
        templates += [group.template for group in made.worker_group_specs]
        images = {template["spec"]["containers"][0]["image"] for template in templates}
        assert images == {NEXT}
