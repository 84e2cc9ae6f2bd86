"""`manta plan` of a RayJob: what is foreseen is what is done, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from manta.cli.plan import describe
from manta.controllers.rayjob.preview import Effect, preview
from manta.kube.client import Client
from manta.rules.settings import Settings
from support.rayjob import ray_job
from support.rayjobworld import KEY, World, a_world, complete, is_running, operator
from support.virtual import faulty, virtually


async def planned(world: World, manifest: dict[str, Any] | None = None) -> list[str]:
    faults = faulty(world.plane)
    found = await preview(Client(faults), Settings(), world.plane.clock, KEY, manifest)
    dry = [one for one in faults.log if one.method not in ("GET", "HEAD")]
    assert len(dry) <= 1  # the server's own check of the manifest, which keeps nothing
    return list(describe("RayJob", KEY, found))


@virtually
async def test_a_new_job_begins_with_a_cluster() -> None:
    async with a_world() as world:
        headline, *lines = await planned(world, ray_job())
        assert headline == f"RayJob default/demo: {Effect.BEGINS}"
        assert any("create RayCluster default/demo-" in line for line in lines)
        assert (await world.clusters()) == []


@virtually
async def test_what_is_not_there_is_said() -> None:
    async with a_world() as world:
        assert "not there" in (await planned(world))[0]


@virtually
async def test_an_invalid_job_names_the_field() -> None:
    async with a_world() as world:
        headline, *lines = await planned(world, ray_job(submissionMode="HTTPMode", entrypoint=" "))
        assert Effect.REFUSED in headline
        assert any("spec.entrypoint" in line for line in lines)


@pytest.mark.parametrize(
    ("edit", "effect", "said"),
    [
        ({}, Effect.GOES_ON, ""),
        ({"suspend": True, "shutdownAfterJobFinishes": True}, Effect.SUSPENDED, "call stop"),
        ({"activeDeadlineSeconds": 600}, Effect.GOES_ON, "activeDeadlineSeconds stops it at"),
    ],
)
def test_an_edit_of_a_running_job(edit: dict[str, Any], effect: str, said: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_world() as world, operator(world):
            await world.create(submissionMode="HTTPMode")
            await world.until(is_running)
            lines = await planned(world, ray_job(submissionMode="HTTPMode", **edit))
            assert effect in lines[0]
            assert said in "\n".join(lines)
            assert is_running(await world.job())

    scenario()


@virtually
async def test_an_ended_job_shows_when_its_cluster_goes() -> None:
    async with a_world(finish_after=10) as world, operator(world):
        await world.create(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=3600)
        await world.until(complete)
        lines = await planned(world)
        assert Effect.OVER in lines[0]
        assert any("DeleteCluster at 20" in line for line in lines)
