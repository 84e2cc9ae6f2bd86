"""Where a RayJob must do as KubeRay's does, because users and KubeRay's own tests count on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import SERVICES
from support.raycluster import NAMESPACE, ray_cluster
from support.rayjob_scenario import Scenario, a_scenario, is_running, operator
from support.virtual import virtually

REDIS = {"redisAddress": "redis:6379"}


def failed(job: Any) -> bool:
    return bool(job.status.job_deployment_status == "Failed")


async def lose_head(scenario: Scenario, cluster: str) -> None:
    """Somebody suspends the cluster by hand: no head is there, and none comes."""
    body = {"spec": {"suspend": True}}
    await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, cluster), body)


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_with_fault_tolerance_a_missing_head_is_a_failure_after_300_seconds(mode: str) -> None:
    """S5."""

    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            spec = ray_cluster(gcsFaultToleranceOptions=REDIS)["spec"]
            await scenario.create(submissionMode=mode, rayClusterSpec=spec)
            job = await scenario.until(is_running)
            await lose_head(scenario, job.status.ray_cluster_name)
            await asyncio.sleep(290)
            assert is_running(await scenario.job())
            job = await scenario.until(failed, 30)
            assert job.status.reason == "JobStatusCheckTimeoutExceeded"
            assert "has no head Pod" in job.status.message

    scenario()


@virtually
async def test_in_interactive_mode_a_missing_head_is_a_failure_after_300_seconds() -> None:
    """S5."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="InteractiveMode", entrypoint="", jobId="by-hand")
        job = await scenario.until(lambda one: one.status.job_deployment_status == "Running")
        await lose_head(scenario, job.status.ray_cluster_name)
        job = await scenario.until(failed, 330)
        assert job.status.reason == "JobStatusCheckTimeoutExceeded"


@virtually
async def test_a_node_port_that_the_user_chose_is_that_of_the_cluster() -> None:
    """The Service of the RayJob took it, and the RayCluster never got a Service of its own."""
    chosen = {"name": "dashboard", "port": 8265, "nodePort": 30123}
    service = {"spec": {"type": "NodePort", "ports": [chosen]}}
    async with a_scenario() as scenario, operator(scenario):
        spec = ray_cluster(head={"headService": service})["spec"]
        await scenario.create(rayClusterSpec=spec)
        job = await scenario.until(is_running)
        key = Key(NAMESPACE, f"{job.status.ray_cluster_name}-head-svc")
        own = await scenario.client.get(SERVICES, key)
        assert [one["nodePort"] for one in own["spec"]["ports"] if one["port"] == 8265] == [30123]
        second = await scenario.client.get(SERVICES, Key(NAMESPACE, "demo-head-svc"))
        assert second["spec"]["type"] == "NodePort"


@virtually
async def test_a_job_on_a_shared_cluster_has_no_head_service_of_its_own() -> None:
    """S9."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("shared"))
        selector = {"ray.io/cluster": "shared"}
        await scenario.create(rayClusterSpec=None, clusterSelector=selector)
        await scenario.until(is_running)
        await asyncio.sleep(10)
        names = {
            one["metadata"]["name"]
            for one in (await scenario.client.list(SERVICES, NAMESPACE)).items
        }
        assert "demo-head-svc" not in names
        assert "shared-head-svc" in names


@virtually
async def test_a_job_without_an_entrypoint_is_accepted_and_fails_at_its_submission() -> None:
    """E2: with a Warning at once, and nothing submitted."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(entrypoint="")
        await asyncio.sleep(1)
        assert ("Warning", "InvalidRayJobSpec") in await scenario.events()
        job = await scenario.until(failed, 60)
        assert job.status.reason == "SubmissionFailed"
        assert "spec.entrypoint is empty" in job.status.message
        assert scenario.ray.executions == []
        assert await scenario.submitters() == []


@virtually
async def test_without_an_entrypoint_the_deadline_before_running_counts() -> None:
    """E2: as KubeRay's own test has it."""
    async with a_scenario() as scenario, operator(scenario):
        scenario.kubelet.script = lambda pod: {"phase": "Pending"}
        await scenario.create(entrypoint="", preRunningDeadlineSeconds=5)
        job = await scenario.until(failed, 30)
        assert job.status.reason == "PreRunningDeadlineExceeded"


@virtually
async def test_a_cluster_status_that_somebody_wrote_is_shown_by_the_job() -> None:
    """E5: until the RayCluster controller has put it right."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        job = await scenario.until(is_running)
        await asyncio.sleep(30)
        key = Key(NAMESPACE, job.status.ray_cluster_name)
        before = (await scenario.job()).status.ray_cluster_status.max_worker_replicas
        body = {"status": {"maxWorkerReplicas": before + 2}}
        await scenario.client.patch(RAY_CLUSTERS, key, body, subresource="status")
        shown = []
        for _ in range(10):  # KubeRay's test asks once a second
            await asyncio.sleep(1)
            shown.append((await scenario.job()).status.ray_cluster_status.max_worker_replicas)
        assert (before + 2) in shown
        assert shown[-1] == before


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
        async with a_scenario(finish_after=5) as scenario, operator(scenario):
            bodies: list[dict[str, Any]] = []
            handle = scenario.ray._submit

            def submit(service: str, head: Any, request: dict[str, Any]) -> Any:
                bodies.append(request)
                return handle(service, head, request)

            scenario.ray._submit = submit  # type: ignore[method-assign]
            await scenario.create(submissionMode="HTTPMode", runtimeEnvYAML=text)
            await scenario.until(lambda one: one.status.job_deployment_status == "Complete")
            assert [one.get("runtime_env") or {} for one in bodies] == [read]

    scenario()


@virtually
async def test_a_runtime_env_that_cannot_be_read_is_said_and_nothing_is_made() -> None:
    """S2."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(runtimeEnvYAML="env_vars: {A: [")
        job = await scenario.until(
            lambda one: one.status.job_deployment_status == "ValidationFailed"
        )
        assert "spec.runtimeEnvYAML" in job.status.message
        assert await scenario.clusters() == []
