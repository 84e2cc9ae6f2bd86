"""`manta plan` of a RayJob: what is foreseen is what is done, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from manta.cli.output.plan_report import describe
from manta.controllers.rayjob.preview import Effect, preview
from manta.kube.client import Client
from manta.rules.settings import Settings
from support.rayjob import ray_job
from support.rayjob_scenario import KEY, Scenario, a_scenario, complete, is_running, operator
from support.virtual import faulty, virtually


async def planned(scenario: Scenario, manifest: dict[str, Any] | None = None) -> list[str]:
    faults = faulty(scenario.plane)
    found = await preview(Client(faults), Settings(), scenario.plane.clock, KEY, manifest)
    dry = [one for one in faults.log if one.method not in ("GET", "HEAD")]
    assert len(dry) <= 1  # the server's own check of the manifest, which keeps nothing
    return list(describe("RayJob", KEY, found))


@virtually
async def test_a_new_job_begins_with_a_cluster() -> None:
    async with a_scenario() as scenario:
        headline, *lines = await planned(scenario, ray_job())
        assert headline == f"RayJob default/demo: {Effect.STARTS}"
        assert any("create RayCluster default/demo-" in line for line in lines)
        assert (await scenario.clusters()) == []


@virtually
async def test_what_is_not_there_is_said() -> None:
    async with a_scenario() as scenario:
        assert "does not exist" in (await planned(scenario))[0]


@virtually
async def test_an_invalid_job_names_the_field() -> None:
    async with a_scenario() as scenario:
        headline, *lines = await planned(
            scenario, ray_job(submissionMode="HTTPMode", entrypoint=" ")
        )
        assert Effect.INVALID in headline
        assert any("spec.entrypoint" in line for line in lines)


@pytest.mark.parametrize(
    ("edit", "effect", "said"),
    [
        ({}, Effect.CONTINUES, ""),
        ({"suspend": True, "shutdownAfterJobFinishes": True}, Effect.SUSPENDED, "call stop"),
        ({"activeDeadlineSeconds": 600}, Effect.CONTINUES, "activeDeadlineSeconds stops it at"),
    ],
)
def test_an_edit_of_a_running_job(edit: dict[str, Any], effect: str, said: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(submissionMode="HTTPMode")
            await scenario.until(is_running)
            lines = await planned(scenario, ray_job(submissionMode="HTTPMode", **edit))
            assert effect in lines[0]
            assert said in "\n".join(lines)
            assert is_running(await scenario.job())

    scenario()


@virtually
async def test_the_fields_that_an_edit_changes_are_named() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        await scenario.until(is_running)
        edits: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
            ({}, ()),
            ({"backoffLimit": 2}, ("spec.backoffLimit: 0 -> 2",)),
        )
        for edit, changes in edits:
            manifest = ray_job(submissionMode="HTTPMode", **edit)
            clock = scenario.plane.clock
            found = await preview(scenario.client, Settings(), clock, KEY, manifest)
            assert found is not None
            assert found.changes == changes


@virtually
async def test_an_ended_job_shows_when_its_cluster_goes() -> None:
    async with a_scenario(finish_after=10) as scenario, operator(scenario):
        await scenario.create(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=3600)
        await scenario.until(complete)
        lines = await planned(scenario)
        assert Effect.FINISHED in lines[0]
        assert any("DeleteCluster at 20" in line for line in lines)
