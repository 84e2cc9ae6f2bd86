"""Jobs on the embedded server with fake nodes, under virtual time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from manta.api.meta import Key
from manta.api.resources import JOBS, PODS
from support.fakenodes import FakeCluster, a_job_manifest, fake_cluster
from support.virtual import virtually


async def a_job(cluster: FakeCluster, script: str = "", **spec: Any) -> None:
    await cluster.client.create(JOBS, "default", a_job_manifest("j", script, **spec))


async def status(cluster: FakeCluster) -> dict[str, Any]:
    held = await cluster.get(JOBS, "j")
    assert held is not None
    return held["status"]


def reasons(held: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["type"], one["reason"]) for one in held["conditions"]]


@virtually
async def test_a_job_runs_to_its_end() -> None:
    async with fake_cluster() as cluster:
        await a_job(cluster, completions=3, parallelism=2)
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Complete"))
        held = await status(cluster)
        assert (held["succeeded"], held.get("active"), held["uncountedTerminatedPods"]) == (
            3,
            None,
            {},
        )
        assert held["completionTime"]
        assert [one["metadata"].get("finalizers") for one in await cluster.pods()] == [None] * 3
        await asyncio.sleep(1)
        assert await cluster.events("Completed") == ["Job completed"]


@virtually
async def test_failures_are_retried_ever_more_slowly_until_the_limit() -> None:
    async with fake_cluster() as cluster:
        await a_job(cluster, "exit=1@1", backoffLimit=2)
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Failed"))
        held = await status(cluster)
        assert reasons(held) == [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded"),
        ]
        assert held["failed"] == 3
        starts = sorted(one["metadata"]["creationTimestamp"] for one in await cluster.pods())
        seconds = [int(text[14:16]) * 60 + int(text[17:19]) for text in starts]
        assert [later - earlier for earlier, later in itertools.pairwise(seconds)] == [
            11,
            21,
        ]
        await asyncio.sleep(1)
        [note] = await cluster.events("BackoffLimitExceeded")
        assert note == "Job has reached the specified backoff limit"


@virtually
async def test_a_job_that_takes_too_long_is_ended() -> None:
    async with fake_cluster() as cluster:
        await a_job(cluster, "run stop=5", activeDeadlineSeconds=10)
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Failed"))
        held = await status(cluster)
        assert reasons(held)[0] == ("FailureTarget", "DeadlineExceeded")
        assert await cluster.pods() == []


@virtually
async def test_a_suspended_job_has_no_pods_and_resumes() -> None:
    async with fake_cluster() as cluster:
        await a_job(cluster, "exit=0@5", suspend=True)
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Suspended"))
        assert await cluster.pods() == []
        key = Key("default", "j")
        await cluster.client.patch(JOBS, key, {"spec": {"suspend": False}})
        await cluster.until(cluster.pods)
        await cluster.client.patch(JOBS, key, {"spec": {"suspend": True}})

        async def empty() -> bool:
            return not await cluster.pods()

        await cluster.until(empty)
        await cluster.client.patch(JOBS, key, {"spec": {"suspend": False}})
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Complete"))
        assert (await status(cluster)).get("failed") is None


@virtually
async def test_a_finished_job_goes_after_its_time_to_live() -> None:
    async with fake_cluster() as cluster:
        await a_job(cluster, ttlSecondsAfterFinished=30)
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Complete"))
        await asyncio.sleep(25)
        assert await cluster.get(JOBS, "j") is not None
        await cluster.until_gone(JOBS, "j")
        assert await cluster.all(PODS) == []


@virtually
async def test_a_deleted_pod_is_replaced_and_counted_as_failed() -> None:
    async with fake_cluster() as cluster:
        await a_job(cluster, "exit=0@20")
        await cluster.until(cluster.pods)
        [pod] = await cluster.pods()
        await cluster.client.delete(PODS, Key("default", pod["metadata"]["name"]))
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Complete"))
        held = await status(cluster)
        assert (held["failed"], held["succeeded"]) == (1, 1)


@virtually
async def test_restarts_in_place_count_against_the_limit() -> None:
    async with fake_cluster() as cluster:
        template = a_job_manifest("j", "exit=1@1")["spec"]["template"]
        template["spec"]["restartPolicy"] = "OnFailure"
        await a_job(cluster, backoffLimit=2, template=template)
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Failed"))
