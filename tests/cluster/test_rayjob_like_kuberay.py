"""Where a RayJob must do as KubeRay's does, because users and KubeRay's own tests count on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import SERVICES
from support.raycluster import NAMESPACE, ray_cluster
from support.rayjobworld import World, a_world, is_running, operator
from support.virtual import running, virtually

REDIS = {"redisAddress": "redis:6379"}


def failed(job: Any) -> bool:
    return bool(job.status.job_deployment_status == "Failed")


async def lose_head(world: World, cluster: str) -> None:
    """Somebody suspends the cluster by hand: no head is there, and none comes."""
    body = {"spec": {"suspend": True}}
    await world.client.patch(RAY_CLUSTERS, Key(NAMESPACE, cluster), body)


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_with_fault_tolerance_a_missing_head_is_a_failure_after_300_seconds(mode: str) -> None:
    """S5."""

    @virtually
    async def scenario() -> None:
        async with a_world() as world, operator(world):
            spec = ray_cluster(gcsFaultToleranceOptions=REDIS)["spec"]
            await world.create(submissionMode=mode, rayClusterSpec=spec)
            job = await world.until(is_running)
            await lose_head(world, job.status.ray_cluster_name)
            await asyncio.sleep(290)
            assert is_running(await world.job())
            job = await world.until(failed, 30)
            assert job.status.reason == "JobStatusCheckTimeoutExceeded"
            assert "has no head Pod" in job.status.message

    scenario()


@virtually
async def test_in_interactive_mode_a_missing_head_is_a_failure_after_300_seconds() -> None:
    """S5."""
    async with a_world() as world, operator(world):
        await world.create(submissionMode="InteractiveMode", entrypoint="", jobId="by-hand")
        job = await world.until(lambda one: one.status.job_deployment_status == "Running")
        await lose_head(world, job.status.ray_cluster_name)
        job = await world.until(failed, 330)
        assert job.status.reason == "JobStatusCheckTimeoutExceeded"


@virtually
async def test_a_job_on_a_shared_cluster_has_no_head_service_of_its_own() -> None:
    """S9."""
    async with a_world() as world, operator(world):
        await world.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("shared"))
        selector = {"ray.io/cluster": "shared"}
        await world.create(rayClusterSpec=None, clusterSelector=selector)
        await world.until(is_running)
        await asyncio.sleep(10)
        names = {
            one["metadata"]["name"] for one in (await world.client.list(SERVICES, NAMESPACE)).items
        }
        assert "demo-head-svc" not in names
        assert "shared-head-svc" in names


@virtually
async def test_a_job_without_an_entrypoint_is_accepted_and_fails_at_its_submission() -> None:
    """E2: with a Warning at once, and nothing submitted."""
    async with a_world() as world, operator(world):
        await world.create(entrypoint="")
        await asyncio.sleep(1)
        assert ("Warning", "InvalidRayJobSpec") in await world.events()
        job = await world.until(failed, 60)
        assert job.status.reason == "SubmissionFailed"
        assert "spec.entrypoint is empty" in job.status.message
        assert world.ray.executions == []
        assert await world.submitters() == []


@virtually
async def test_without_an_entrypoint_the_deadline_before_running_counts() -> None:
    """E2: as KubeRay's own test has it."""
    async with a_world() as world, operator(world):
        world.kubelet.script = lambda pod: {"phase": "Pending"}
        await world.create(entrypoint="", preRunningDeadlineSeconds=5)
        job = await world.until(failed, 30)
        assert job.status.reason == "PreRunningDeadlineExceeded"


@virtually
async def test_a_cluster_status_that_somebody_wrote_is_shown_by_the_job() -> None:
    """E5: until the RayCluster controller has put it right."""
    async with a_world() as world, operator(world):
        await world.create()
        job = await world.until(is_running)
        await asyncio.sleep(30)
        key = Key(NAMESPACE, job.status.ray_cluster_name)
        before = (await world.job()).status.ray_cluster_status.max_worker_replicas
        body = {"status": {"maxWorkerReplicas": before + 2}}
        shown: list[int] = []
        async with running(_follow(world, shown)):
            await asyncio.sleep(1)
            await world.client.patch(RAY_CLUSTERS, key, body, subresource="status")
            await asyncio.sleep(10)
        assert (before + 2) in shown
        assert shown[-1] == before


async def _follow(world: World, shown: list[int]) -> None:
    """Every number of most workers that the RayJob has shown, in order."""
    async for event in world.client.watch(RAY_JOBS, into=RayJob):
        if event.type in ("ADDED", "MODIFIED"):
            shown.append(event.object.status.ray_cluster_status.max_worker_replicas)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("env_vars:\n  DAY: 2026-01-01\n", {"env_vars": {"DAY": "2026-01-01"}}),
        ("env_vars: {AT: 12:30:00}", {"env_vars": {"AT": "12:30:00"}}),
        ("# nothing yet\n", {}),
    ],
)
def test_a_runtime_env_is_read_as_kuberay_reads_it(text: str, read: dict[str, Any]) -> None:
    """S2: end to end, up to what Ray is sent."""

    @virtually
    async def scenario() -> None:
        async with a_world(finish_after=5) as world, operator(world):
            bodies: list[dict[str, Any]] = []
            handle = world.ray._submit

            def submit(service: str, head: Any, request: dict[str, Any]) -> Any:
                bodies.append(request)
                return handle(service, head, request)

            world.ray._submit = submit  # type: ignore[method-assign]
            await world.create(submissionMode="HTTPMode", runtimeEnvYAML=text)
            await world.until(lambda one: one.status.job_deployment_status == "Complete")
            assert [one.get("runtime_env") or {} for one in bodies] == [read]

    scenario()


@virtually
async def test_a_runtime_env_that_cannot_be_read_is_said_and_nothing_is_made() -> None:
    """S2."""
    async with a_world() as world, operator(world):
        await world.create(runtimeEnvYAML="env_vars: {A: [")
        job = await world.until(lambda one: one.status.job_deployment_status == "ValidationFailed")
        assert "spec.runtimeEnvYAML" in job.status.message
        assert await world.clusters() == []
