"""RayCronJobs with the RayJobs that they make: every tick runs once, and history is kept to its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import yaml

from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.controllers.raycluster import controller as raycluster
from manta.controllers.raycronjob import controller as raycronjob
from manta.controllers.rayjob import controller as rayjob
from manta.ray.dashboard import Dashboard
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support.raycluster import NAMESPACE
from support.raycronjob import ray_cron_job
from support.rayjob import ray_job
from support.rayjob_scenario import Scenario, a_scenario
from support.virtual import running, virtually

EXAMPLE = Path(__file__).parents[2] / "examples/raycronjob.yaml"


@asynccontextmanager
async def all_controllers(scenario: Scenario) -> AsyncIterator[Manager]:
    settings = Settings()
    manager = Manager(scenario.client, scenario.plane.clock, Random(7))
    raycluster.build(manager, settings)
    rayjob.build(manager, settings, Dashboard(scenario.ray))
    raycronjob.build(manager, settings)
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        manager.stop()
        await asyncio.gather(task, return_exceptions=True)


async def every_third_fails(scenario: Scenario) -> None:
    """Jobs end after a quarter of a minute, each third one badly."""
    ended: list[str] = []
    while True:
        await asyncio.sleep(15)
        for head in list(scenario.ray.heads.values()):
            for job_id, job in list(head.jobs.items()):
                if job.status == "RUNNING":
                    ended.append(job_id)
                    how = "FAILED" if len(ended) % 3 == 0 else "SUCCEEDED"
                    scenario.ray.end(head, job_id, how, "boom" if how == "FAILED" else "")


async def jobs(scenario: Scenario) -> list[dict[str, Any]]:
    return (await scenario.client.list(RAY_JOBS, NAMESPACE)).items


def ends(found: list[dict[str, Any]]) -> list[str]:
    return [one.get("status", {}).get("jobStatus", "") for one in found]


@virtually
async def test_every_tick_runs_once_and_history_is_kept_to_its_limits() -> None:
    template = ray_job(submissionMode="HTTPMode", shutdownAfterJobFinishes=True)["spec"]
    cron = ray_cron_job(
        jobTemplate=template, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1
    )
    async with (
        a_scenario() as scenario,
        all_controllers(scenario),
        running(every_third_fails(scenario)),
    ):
        await scenario.client.create(RAY_CRON_JOBS, NAMESPACE, cron)
        await asyncio.sleep(20 * 60)
        found = await jobs(scenario)
        assert ends(found).count("SUCCEEDED") <= 3  # one may have ended this very moment
        assert ends(found).count("FAILED") <= 2
        assert len(found) <= 5
        assert 19 <= len(scenario.ray.executions) <= 21
        assert len({job_id for _, job_id in scenario.ray.executions}) == len(
            scenario.ray.executions
        )
        assert len(await scenario.clusters()) <= 1


@virtually
async def test_a_deleted_cron_job_takes_its_jobs_along() -> None:
    """By their owner references: the garbage collector does the rest."""
    template = ray_job(submissionMode="HTTPMode")["spec"]
    async with a_scenario() as scenario, all_controllers(scenario):
        await scenario.client.create(RAY_CRON_JOBS, NAMESPACE, ray_cron_job(jobTemplate=template))
        await asyncio.sleep(90)
        [child, *_] = await jobs(scenario)
        [owner] = child["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("RayCronJob", "tick", True)


@virtually
async def test_the_example_runs_at_its_hour() -> None:
    document = yaml.safe_load(EXAMPLE.read_text())
    async with a_scenario(finish_after=30) as scenario, all_controllers(scenario):
        await scenario.client.create(RAY_CRON_JOBS, NAMESPACE, document)
        for _ in range(24 * 60 + 10):
            await asyncio.sleep(60)
            if ends(await jobs(scenario)) == ["SUCCEEDED"]:
                break
        assert ends(await jobs(scenario)) == ["SUCCEEDED"]
        now = scenario.plane.clock.now()
        assert (now.hour, now.minute <= 5) == (1, True)  # two o'clock in Berlin, in winter
