"""Manta is started on what KubeRay 1.5 to 1.7 left, in the middle of its work, and given back again.

No Pod is deleted or created, no cluster is made, no job is submitted, and what the statuses say is
true. The scenarios are built from KubeRay's object shapes (`support.kuberay`), not by Manta's builders.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import INGRESSES, PODS, SECRETS, SERVICES
from manta.rules.settings import Settings
from support.kuberay import (
    A_HASH,
    ANOTHER_HASH,
    HASH,
    RECREATE,
    RELEASES,
    VERSION,
    Release,
    would_do,
)
from support.raycluster import NAMESPACE, group, ray_cluster
from support.raycronjob import ray_cron_job
from support.rayjob import ray_job
from support.rayservice_objects import CONFIG, cluster_config
from support.takeover import A_WHILE, SERVED, Scenario, a_job, a_scenario, a_service
from support.virtual import virtually

Json = dict[str, Any]
NEXT = "rayproject/ray:2.61.0"
each_release = pytest.mark.parametrize("release", RELEASES, ids=lambda one: one.version)


# ── RayClusters ──────────────────────────────────────────────────────────────────────────

SHAPES: dict[str, Json] = {
    "plain": {"groups": [group(replicas=2), group("more", 1)]},
    "with an autoscaler": {
        "groups": [group(replicas=2)],
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"version": "v2"},
    },
    "recreated on change": {"upgradeStrategy": {"type": "Recreate"}},
    "with Redis": {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
    "with a token": {"authOptions": {"mode": "token"}},
    "with an Ingress": {"head": {"enableIngress": True}},
    "of many hosts": {"groups": [group(replicas=2, numOfHosts=2)]},
}


@each_release
@pytest.mark.parametrize("shape", SHAPES)
def test_a_ray_cluster_is_taken_over_and_given_back(release: Release, shape: str) -> None:
    @virtually
    async def story() -> None:
        async with a_scenario(release) as scenario:
            before = await scenario.kuberay.cluster(ray_cluster(**SHAPES[shape]))
            async with scenario.taken_over() as faults:
                after = await scenario.get(RAY_CLUSTERS)
                assert after["spec"] == before["spec"]
                assert after["status"]["state"] == "ready"
                for field in ("desiredWorkerReplicas", "readyWorkerReplicas"):
                    assert after["status"][field] == before["status"][field]
                [head] = await heads(scenario)
                assert after["status"]["head"]["podName"] == head["metadata"]["name"]
                assert after["metadata"].get("finalizers") == before["metadata"].get("finalizers")
                quiet = len(faults.accepted_writes())
                await asyncio.sleep(A_WHILE)
                assert len(faults.accepted_writes()) == quiet

    story()


async def heads(scenario: Scenario) -> list[Json]:
    labels = "ray.io/node-type=head"
    return (await scenario.client.list(PODS, NAMESPACE, labels=labels)).items


@virtually
async def test_a_secret_and_an_ingress_of_kuberays_are_kept() -> None:
    async with a_scenario(RELEASES[0]) as scenario:
        shape = SHAPES["with a token"] | SHAPES["with an Ingress"]
        await scenario.kuberay.cluster(ray_cluster(**shape))
        secret = await scenario.get(SECRETS)
        ingress = await scenario.get(INGRESSES, "demo-head-ingress")
        async with scenario.taken_over():
            assert (await scenario.get(SECRETS))["data"] == secret["data"]
            kept = await scenario.get(INGRESSES, "demo-head-ingress")
            assert kept["metadata"]["uid"] == ingress["metadata"]["uid"]


@virtually
async def test_the_head_bears_our_version_with_our_hash_or_kuberays_with_its_own() -> None:
    """Whoever comes next must not take one operator's hash for the other's."""
    async with a_scenario(RELEASES[-1]) as scenario:
        await scenario.kuberay.cluster(ray_cluster(**SHAPES["recreated on change"]))
        async with scenario.taken_over():
            [head] = await heads(scenario)
            notes = head["metadata"]["annotations"]
            assert notes[VERSION] == Settings().version
            assert notes[RECREATE] not in ("", A_HASH)


@virtually
async def test_a_cluster_that_was_taken_over_is_scaled_as_any_other() -> None:
    async with a_scenario(RELEASES[0]) as scenario:
        await scenario.kuberay.cluster(ray_cluster(groups=[group(replicas=2)]))
        async with scenario.taken_over():
            at = "/spec/workerGroupSpecs/0/replicas"
            for count in (3, 1):
                body = [{"op": "replace", "path": at, "value": count}]
                await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, "demo"), body, kind="json")
                await asyncio.sleep(30)
                assert len(await scenario.all(PODS)) == 1 + count


@virtually
async def test_hosts_without_names_are_scaled_without_a_loss() -> None:
    """1.5 did not say which host belongs to which replica: those that run go on as they are."""
    async with a_scenario(RELEASES[0]) as scenario:
        await scenario.kuberay.cluster(ray_cluster(**SHAPES["of many hosts"]))
        async with scenario.taken_over():
            before = await scenario.uids(PODS)
            at = "/spec/workerGroupSpecs/0/replicas"
            body = [{"op": "replace", "path": at, "value": 3}]
            await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, "demo"), body, kind="json")
            await asyncio.sleep(60)
            after = await scenario.uids(PODS)
            assert before <= after
            assert len(after) == 1 + 3 * 2


# ── RayServices ──────────────────────────────────────────────────────────────────────────


@each_release
def test_a_ray_service_is_taken_over_and_given_back(release: Release) -> None:
    @virtually
    async def story() -> None:
        async with a_scenario(release) as scenario:
            service, _ = await a_service(scenario)
            await scenario.kuberay.service_status(service, "demo-old")
            async with scenario.taken_over():
                status = (await scenario.get(RAY_SERVICES))["status"]
                assert status["activeServiceStatus"]["rayClusterName"] == "demo-old"
                assert not (status.get("pendingServiceStatus") or {}).get("rayClusterName")
                assert status["serviceStatus"] == "Running"
                assert status["numServeEndpoints"] == 2
                assert all(one == SERVED for one in scenario.puts("demo-old"))

    story()


@each_release
def test_a_ray_service_in_the_middle_of_an_upgrade_is_brought_to_its_end(
    release: Release,
) -> None:
    @virtually
    async def story() -> None:
        async with a_scenario(release) as scenario:
            better = "applications: [{name: app, import_path: demo.better}]"
            wanted = {"rayClusterConfig": cluster_config(NEXT), "serveConfigV2": better}
            service, _ = await a_service(scenario, **wanted)
            document = ray_cluster("demo-new") | {"spec": cluster_config(NEXT)}
            await scenario.kuberay.cluster(document, origin=service, hash_=ANOTHER_HASH)
            await scenario.kuberay.service_status(service, "demo-old", "demo-new")
            new = {"applications": [{"name": "app", "import_path": "demo.better"}]}
            scenario.serve("demo-new", new, "DEPLOYING")
            async with scenario.taken_over(60):
                status = (await scenario.get(RAY_SERVICES))["status"]
                assert status["activeServiceStatus"]["rayClusterName"] == "demo-old"
                assert status["pendingServiceStatus"]["rayClusterName"] == "demo-new"
                assert status["numServeEndpoints"] == 2
                assert await serving_heads(scenario) >= {"demo-old"}
                assert scenario.puts("demo-old") == []
                assert all(one == new for one in scenario.puts("demo-new"))
                head = scenario.ray.head(NAMESPACE, "demo-new-head-svc")
                scenario.ray.set_applications(head, None, "RUNNING")
                await asyncio.sleep(30)
                status = (await scenario.get(RAY_SERVICES))["status"]
                assert status["activeServiceStatus"]["rayClusterName"] == "demo-new"
                serve = await scenario.get(SERVICES, "demo-serve-svc")
                assert serve["spec"]["selector"]["ray.io/cluster"] == "demo-new"
                await asyncio.sleep(90)
                names = {one["metadata"]["name"] for one in await scenario.all(RAY_CLUSTERS)}
                assert names == {"demo-new"}
                assert await would_do(scenario.client, release) == []

    story()


async def serving_heads(scenario: Scenario) -> set[str]:
    """The clusters whose heads take requests."""
    labels = [one["metadata"]["labels"] for one in await heads(scenario)]
    return {one["ray.io/cluster"] for one in labels if one.get("ray.io/serve") == "true"}


@virtually
async def test_a_change_after_the_take_over_is_an_upgrade_as_any_other() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        service, _ = await a_service(scenario)
        await scenario.kuberay.service_status(service, "demo-old")
        async with scenario.taken_over():
            body = {"spec": {"rayClusterConfig": cluster_config(NEXT)}}
            await scenario.client.patch(RAY_SERVICES, Key(NAMESPACE, "demo"), body)
            await asyncio.sleep(120)
            [cluster] = await scenario.all(RAY_CLUSTERS)
            assert cluster["metadata"]["name"] != "demo-old"
            assert cluster["metadata"]["annotations"][VERSION] == Settings().version
            assert cluster["metadata"]["annotations"][HASH] not in (A_HASH, ANOTHER_HASH)
            assert await would_do(scenario.client, RELEASES[-1]) == []


@virtually
async def test_an_operator_that_claimed_kuberays_version_would_make_a_new_cluster() -> None:
    """So it is our own version that keeps the cluster, and these scenarios show the difference."""
    async with a_scenario(RELEASES[-1]) as scenario:
        service, _ = await a_service(scenario)
        await scenario.kuberay.service_status(service, "demo-old")
        await asyncio.sleep(5)
        async with scenario.manta(Settings(version=RELEASES[-1].version)):
            await asyncio.sleep(60)
            assert len(await scenario.all(RAY_CLUSTERS)) == 2


# ── RayJobs ──────────────────────────────────────────────────────────────────────────────


@each_release
@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode", "SidecarMode", "InteractiveMode"])
def test_a_running_ray_job_is_taken_over_and_brought_to_its_end(
    release: Release, mode: str
) -> None:
    @virtually
    async def story() -> None:
        async with a_scenario(release) as scenario:
            await a_job(scenario, mode)
            async with scenario.taken_over():
                status = (await scenario.get(RAY_JOBS))["status"]
                assert (status["jobStatus"], status["jobDeploymentStatus"]) == (
                    "RUNNING",
                    "Running",
                )
                assert (status["jobId"], status["rayClusterName"]) == ("demo-12345", "demo-abcde")
                head = scenario.ray.head(NAMESPACE, "demo-abcde-head-svc")
                scenario.ray.end(head, "demo-12345", "SUCCEEDED")
                await asyncio.sleep(400)
                status = (await scenario.get(RAY_JOBS))["status"]
                assert (status["jobStatus"], status["jobDeploymentStatus"]) == (
                    "SUCCEEDED",
                    "Complete",
                )
                assert scenario.ray.executions == []

    story()


@virtually
async def test_a_ray_job_that_is_over_stays_over() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        over = {
            "jobStatus": "SUCCEEDED",
            "jobDeploymentStatus": "Complete",
            "endTime": "2026-01-01T00:01:00Z",
            "succeeded": 1,
        }
        await a_job(scenario, "K8sJobMode", **over)
        async with scenario.taken_over() as faults:
            status = (await scenario.get(RAY_JOBS))["status"]
            assert {key: status[key] for key in over} == over
            reported = len(faults.accepted_writes("/rayjobs/"))
            await asyncio.sleep(A_WHILE)
            assert len(faults.accepted_writes("/rayjobs/")) == reported  # said once, and no more


@virtually
async def test_a_ray_job_that_waits_for_its_cluster_gets_the_one_that_was_named() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        status = {"jobStatus": "", "jobDeploymentStatus": "Initializing", "rayJobInfo": {}}
        document = ray_job(submissionMode="HTTPMode")
        job = await scenario.kuberay.job(document, "demo-abcde", "demo-12345", **status)
        await scenario.kuberay.cluster(ray_cluster("demo-abcde"), origin=job, ready=False)
        await asyncio.sleep(5)
        async with scenario.manta():
            await asyncio.sleep(60)
            now = (await scenario.get(RAY_JOBS))["status"]
            assert (now["jobId"], now["jobStatus"]) == ("demo-12345", "RUNNING")
            [cluster] = await scenario.all(RAY_CLUSTERS)
            assert cluster["metadata"]["name"] == "demo-abcde"
            assert scenario.ray.executions == [("demo-abcde-head-svc", "demo-12345")]


# ── RayCronJobs ──────────────────────────────────────────────────────────────────────────


@virtually
async def test_a_ray_cron_job_goes_on_after_the_last_tick_that_kuberay_served() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        document = ray_cron_job(schedule="0 * * * *")
        served = {"lastScheduleTime": "2026-01-01T00:00:00Z"}
        await scenario.kuberay.put(RAY_CRON_JOBS, document, served)
        async with scenario.manta():
            await asyncio.sleep(1800)
            assert await scenario.all(RAY_JOBS) == []
            await asyncio.sleep(3600)
            assert len(await scenario.all(RAY_JOBS)) == 1


def test_the_scenarios_serve_what_the_service_asks_for() -> None:
    """Otherwise a config that is submitted again would not show."""
    assert "demo.app" in CONFIG
    assert SERVED["applications"][0]["import_path"] == "demo.app"
