"""`manta upgrade` on the embedded server: it begins an upgrade, follows it, and ends with it."""

from __future__ import annotations

import asyncio

import pytest

from manta.cli.upgrade import Screen, _set_image, watch
from support.rayservice import Scenario, a_scenario, is_ready, operator
from support.rayservice_objects import cluster_config
from support.virtual import virtually

NEXT = "rayproject/ray:2.61.0"


async def follow(scenario: Scenario, seconds: float = 300) -> int:
    return await watch(scenario.client, scenario.key, Screen(live=False), seconds)


def test_an_upgrade_is_followed_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create()
            old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
            await _set_image(scenario.client, scenario.key, NEXT, "2.61.0")
            assert await follow(scenario) == 0
            service = await scenario.service()
            assert service.status.active_service_status.ray_cluster_name != old
            assert service.spec.ray_cluster_config.ray_version == "2.61.0"
            images = {
                one["spec"]["containers"][0]["image"]
                for one in await scenario.pods()
                if one["metadata"]["labels"]["ray.io/cluster"] != old
            }
            assert images == {NEXT}

    scenario()
    reported = capsys.readouterr().out.splitlines()
    assert reported[0] == f"rayservice/demo: image set to {NEXT}"
    assert any("is being upgraded" in one and "DEPLOYING" in one for one in reported)
    assert "the upgrade is complete" in reported[-1]
    assert len(reported) == len(set(reported)), "each change is said once"


def test_an_application_that_never_starts_is_named_when_the_time_is_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario(deploy_after=None) as scenario, operator(scenario):
            await scenario.create()
            assert await follow(scenario, 60) == 1

    scenario()
    last = capsys.readouterr().out.splitlines()[-1]
    assert "not complete within 60 s" in last
    assert 'application "app" is DEPLOYING' in last


def test_a_spec_that_cannot_be_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create()
            await scenario.until(is_ready)
            await scenario.edit(serveConfigV2="applications: [")
            assert await follow(scenario, 60) == 1

    scenario()
    assert "failed: " in capsys.readouterr().out.splitlines()[-1]


def test_a_service_that_is_deleted_ends_the_watch(capsys: pytest.CaptureFixture[str]) -> None:
    from manta.api.ray.resources import RAY_SERVICES
    from manta.kube.errors import MantaError

    @virtually
    async def scenario() -> None:
        async with a_scenario(deploy_after=None) as scenario, operator(scenario):
            await scenario.create()
            following = asyncio.create_task(follow(scenario))
            await asyncio.sleep(5)
            await scenario.client.delete(RAY_SERVICES, scenario.key)
            with pytest.raises(MantaError, match="was deleted"):
                await following

    scenario()
    assert capsys.readouterr().out


@virtually
async def test_workers_of_every_group_get_the_image() -> None:
    config = cluster_config()
    [first] = config["workerGroupSpecs"]
    config["workerGroupSpecs"] = [first, {**first, "groupName": "second"}]
    async with a_scenario() as scenario:
        await scenario.create(rayClusterConfig=config)
        await _set_image(scenario.client, scenario.key, NEXT, None)
        made = (await scenario.service()).spec.ray_cluster_config
        templates = [made.head_group_spec.template]
        templates += [group.template for group in made.worker_group_specs]
        images = {template["spec"]["containers"][0]["image"] for template in templates}
        assert images == {NEXT}
