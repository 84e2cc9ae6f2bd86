"""Known bugs of KubeRay's RayJob (C55 to C68 of the reference): each is a test that we do not have it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import NAMESPACE, group, ray_cluster
from support.rayjob_scenario import (
    KEY,
    Scenario,
    a_scenario,
    complete,
    failed,
    has_deployment_status,
    is_running,
    operator,
)
from support.virtual import faulty, virtually

MODES = ("K8sJobMode", "HTTPMode", "SidecarMode")
HTTP = {"submissionMode": "HTTPMode"}


@pytest.mark.parametrize("ttl", [0, 5])
@pytest.mark.parametrize("end", ["SUCCEEDED", "FAILED", "STOPPED"])
def test_c55_the_cluster_goes_at_its_time_whatever_the_end(end: str, ttl: int) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=ttl)
            scenario.end(await scenario.until(is_running), end)
            await scenario.until(lambda job: job.status.end_time is not None)
            began = asyncio.get_running_loop().time()
            async with asyncio.timeout(60):
                while await scenario.clusters(alive=True):
                    await asyncio.sleep(0.1)
            assert ttl - 2 <= asyncio.get_running_loop().time() - began <= ttl + 2
            assert len(await scenario.submitters()) == 1  # and with it the log

    scenario()


@pytest.mark.parametrize("mode", MODES)
def test_c56_a_job_whose_head_is_lost_fails_soon_and_is_not_run_again(mode: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(submissionMode=mode)
            await scenario.until(is_running)
            await scenario.kill_head()
            job = await scenario.until(failed, 60)
            assert job.status.reason == "AppFailed"
            await asyncio.sleep(120)
            assert len(scenario.ray.executions) == 1

    scenario()


@pytest.mark.parametrize("mode", MODES)
def test_c56_with_a_backoff_limit_a_lost_head_means_one_new_attempt(mode: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(submissionMode=mode, backoffLimit=1)
            first = (await scenario.until(is_running)).status
            await scenario.kill_head()
            second = await scenario.until(
                lambda job: is_running(job) and job.status.job_id != first.job_id
            )
            assert second.status.ray_cluster_name != first.ray_cluster_name
            await asyncio.sleep(120)
            assert len(scenario.ray.executions) == 2
            assert (await scenario.job()).status.failed == 1

    scenario()


@virtually
async def test_c56_a_sidecars_head_that_dies_before_its_workers_came_runs_nothing_again() -> None:
    """Not provisioned yet, the cluster would make a new head, and with it a new submitter."""
    async with a_scenario() as scenario:
        scenario.kubelet.script = lambda pod: _pending() if _is_worker(pod) else None
        async with operator(scenario):
            await scenario.create(submissionMode="SidecarMode")
            await scenario.until(is_running)
            await scenario.kill_head()
            await scenario.until(failed, 60)
            await asyncio.sleep(120)
            assert len(scenario.ray.executions) == 1


@pytest.mark.parametrize("limit", [0, 2])
def test_c57_a_submitter_that_loses_its_connection_fails_no_job_and_submits_once(
    limit: int,
) -> None:
    """Without a second try the submitter Job has failed: the job runs on all the same."""

    @virtually
    async def scenario() -> None:
        async with a_scenario(finish_after=60) as scenario, operator(scenario):
            scenario.loses_reply = True
            await scenario.create(submitterConfig={"backoffLimit": limit})
            job = await scenario.until(complete)
            assert job.status.job_status == "SUCCEEDED"
            assert len(scenario.ray.executions) == 1

    scenario()


@pytest.mark.parametrize("mode", ["K8sJobMode", "SidecarMode"])
def test_c58_a_submitter_that_exits_0_does_not_save_a_failed_job(mode: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(submissionMode=mode)
            scenario.end(await scenario.until(is_running), "FAILED", "boom")
            job = await scenario.until(failed)
            assert (job.status.reason, job.status.message) == ("AppFailed", "boom")

    scenario()


@pytest.mark.parametrize("exit_code", [0, 1])
def test_c59_a_sidecar_that_ends_early_ends_no_job(exit_code: int) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(submissionMode="SidecarMode")
            job = await scenario.until(is_running)
            [head] = (await scenario.client.list(PODS, labels="ray.io/node-type=head")).items
            await scenario.end_sidecar(head, exit_code)
            await asyncio.sleep(400)
            assert (await scenario.job()).status.job_deployment_status == "Running"
            scenario.end(job, "SUCCEEDED")
            await scenario.until(complete)

    scenario()


@virtually
async def test_c60_a_sidecars_success_is_recorded_although_workers_never_came() -> None:
    async with a_scenario(finish_after=30) as scenario:
        scenario.kubelet.script = lambda pod: _pending() if _is_worker(pod) else None
        async with operator(scenario):
            await scenario.create(submissionMode="SidecarMode")
            job = await scenario.until(complete)
            assert job.status.job_status == "SUCCEEDED"


def _is_worker(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"].get("ray.io/node-type") == "worker")


def _pending() -> dict[str, Any]:
    return {"phase": "Pending"}


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_c62_suspend_and_resume_submit_once_each_and_leave_nothing(mode: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(submissionMode=mode, shutdownAfterJobFinishes=True)
            ids = set()
            for times in range(1, 6):
                job = await scenario.until(is_running)
                ids.add(job.status.job_id)
                assert len(scenario.ray.executions) == times
                await scenario.patch(suspend=True)
                await scenario.until(has_deployment_status("Suspended"))
                assert await scenario.clusters() == []
                assert await scenario.submitters() == []
                await scenario.patch(suspend=False)
            await scenario.until(is_running)
            assert len(ids) == 5

    scenario()


@virtually
async def test_c62_a_resumed_job_with_an_id_of_its_own_runs_again() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(**HTTP, jobId="fixed", shutdownAfterJobFinishes=True)
        await scenario.until(is_running)
        await scenario.patch(suspend=True)
        await scenario.until(has_deployment_status("Suspended"))
        await scenario.patch(suspend=False)
        await scenario.until(is_running)
        await asyncio.sleep(60)
        assert is_running(await scenario.job())
        assert len(scenario.ray.executions) == 2


async def _on_a_shared_cluster(scenario: Scenario, **spec: Any) -> None:
    await scenario.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("shared"))
    selector = {"ray.io/cluster": "shared"}
    await scenario.create(rayClusterSpec=None, clusterSelector=selector, **spec)


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_c63_a_deadline_stops_the_job_on_a_shared_cluster(mode: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await _on_a_shared_cluster(scenario, submissionMode=mode, activeDeadlineSeconds=5)
            await scenario.until(is_running)
            job = await scenario.until(failed, 10)
            assert job.status.reason == "DeadlineExceeded"
            await scenario.until(lambda job: job.status.job_status == "STOPPED", 10)
            stops = [path for _, path, _ in scenario.ray.calls if path.endswith("/stop")]
            assert len(stops) == 1
            assert len(await scenario.clusters(alive=True)) == 1

    scenario()


@virtually
async def test_c63_what_was_not_submitted_before_its_deadline_is_not_submitted_after_it() -> None:
    async with a_scenario() as scenario, operator(scenario):
        scenario.submits_after = 60
        await _on_a_shared_cluster(scenario, activeDeadlineSeconds=20)
        await scenario.until(failed, 60)
        await asyncio.sleep(5)
        assert await scenario.submitters() == []


@virtually
async def test_c63_a_stop_that_got_lost_is_asked_for_again() -> None:
    lost = iter([True])

    def weather(_method: str, path: str) -> str:
        return "refuse" if path.endswith("/stop") and next(lost, False) else ""

    async with a_scenario(weather=weather) as scenario, operator(scenario):
        await _on_a_shared_cluster(scenario, **HTTP, activeDeadlineSeconds=5)
        await scenario.until(failed)
        await scenario.until(lambda job: job.status.job_status == "STOPPED", 60)


@pytest.mark.parametrize("weather", ["hang", "refuse", "500", ""])
def test_c64_a_deleted_job_is_gone_in_time_whatever_ray_does(weather: str) -> None:
    @virtually
    async def scenario() -> None:
        now = {"weather": ""}
        async with (
            a_scenario(weather=lambda _m, _p: now["weather"]) as scenario,
            operator(scenario),
        ):
            await scenario.create(**HTTP)
            await scenario.until(is_running)
            now["weather"] = weather
            await scenario.client.delete(RAY_JOBS, KEY)
            assert await scenario.until_gone() <= 30

    scenario()


@virtually
async def test_c64_a_deleted_job_without_a_head_is_gone_in_time() -> None:
    async with a_scenario() as scenario:
        scenario.kubelet.script = lambda _pod: _pending()
        async with operator(scenario):
            await scenario.create()
            await scenario.until(has_deployment_status("Initializing"))
            await scenario.client.delete(RAY_JOBS, KEY)
            assert await scenario.until_gone() <= 30


@virtually
async def test_c65_submitters_are_deleted_with_their_pods() -> None:
    """A Job that is deleted without a word on its Pods leaves them behind, in the batch API."""
    async with a_scenario() as scenario:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            await scenario.create(shutdownAfterJobFinishes=True)
            await scenario.until(is_running)
            await scenario.patch(suspend=True)
            await scenario.until(has_deployment_status("Suspended"))
        [delete] = [one for one in faults.log if one.method == "DELETE" and "/jobs/" in one.path]
        assert b'"propagationPolicy":"Background"' in (delete.body or b"").replace(b" ", b"")


@virtually
async def test_c66_what_never_comes_to_run_is_ended_with_its_reason() -> None:
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
    }
    async with a_scenario() as scenario:
        scenario.kubelet.script = lambda _pod: {"phase": "Pending", "conditions": [unschedulable]}
        async with operator(scenario):
            await scenario.create(preRunningDeadlineSeconds=10, shutdownAfterJobFinishes=True)
            job = await scenario.until(failed, 15)
            assert job.status.reason == "PreRunningDeadlineExceeded"
            assert "0/1 nodes are available" in job.status.message
            await asyncio.sleep(5)
            assert await scenario.clusters() == []


@virtually
async def test_c66_what_runs_is_not_ended_by_the_deadline_before_running() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(**HTTP, preRunningDeadlineSeconds=30)
        await scenario.until(is_running)
        await asyncio.sleep(300)
        assert is_running(await scenario.job())


@virtually
async def test_c67_a_deadline_is_not_retried_and_counts_once() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(**HTTP, backoffLimit=2, activeDeadlineSeconds=5)
        job = await scenario.until(failed, 30)
        await asyncio.sleep(60)
        job = await scenario.job()
        assert (job.status.reason, job.status.failed) == ("DeadlineExceeded", 1)
        assert len(scenario.ray.executions) == 1


@pytest.mark.parametrize("limit", [0, 2])
def test_c67_attempts_are_counted_to_the_limit(limit: int) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(**HTTP, backoffLimit=limit)
            ids: set[str] = set()
            for _ in range(limit + 1):
                job = await scenario.until(
                    lambda job: is_running(job) and job.status.job_id not in ids
                )
                ids.add(job.status.job_id)
                scenario.end(job, "FAILED", "boom")
            job = await scenario.until(failed)
            assert (job.status.failed, len(scenario.ray.executions)) == (limit + 1, limit + 1)

    scenario()


# ── the gate SidecarSubmitterRestart ─────────────────────────────────────────────────────


@virtually
async def test_with_the_gate_a_sidecar_is_started_again_by_kubernetes() -> None:
    settings = Settings(gates=FeatureGates(sidecar_submitter_restart=True))
    async with a_scenario(finish_after=30) as scenario, operator(scenario, settings=settings):
        await scenario.create(submissionMode="SidecarMode")
        await scenario.until(complete)
        [head] = (await scenario.client.list(PODS, labels="ray.io/node-type=head")).items
        [sidecar] = [one for one in head["spec"]["containers"] if "submitter" in one["name"]]
        assert sidecar["restartPolicy"] == "OnFailure"
        assert "ray job status" in sidecar["args"][0]


# ── a submitter that cannot run ──────────────────────────────────────────────────────────


@virtually
async def test_a_submitter_pod_that_finds_no_node_is_named_on_the_rayjob() -> None:
    async with a_scenario() as scenario, operator(scenario):
        scenario.submits_after = 10_000
        await scenario.create()
        await scenario.until(has_deployment_status("Running"))
        [job] = await scenario.submitters()
        labels = {**job["spec"]["template"]["metadata"]["labels"]}
        labels["batch.kubernetes.io/job-name"] = KEY.name
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "demo-xyz", "namespace": NAMESPACE, "labels": labels},
            "spec": job["spec"]["template"]["spec"],
        }
        reported = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu",
        }
        scenario.kubelet.script = lambda _pod: {"phase": "Pending", "conditions": [reported]}
        await scenario.client.create(PODS, NAMESPACE, pod)
        job_now = await scenario.until(lambda job: "demo-xyz" in job.status.message, 30)
        [ready] = [one for one in job_now.status.conditions if one.type == "Ready"]
        assert (ready.status, ready.reason) == ("False", "Unschedulable")


@virtually
async def test_a_borrowed_cluster_that_comes_later_is_noticed() -> None:
    async with a_scenario(finish_after=20) as scenario, operator(scenario):
        selector = {"ray.io/cluster": "shared"}
        await scenario.create(rayClusterSpec=None, clusterSelector=selector)
        await scenario.until(lambda job: "there is none" in job.status.message)
        assert ("Warning", "RayClusterNotFound") in await scenario.events()
        await scenario.client.create(
            RAY_CLUSTERS, NAMESPACE, ray_cluster("shared", groups=[group(replicas=1)])
        )
        await scenario.until(complete, 120)
        assert len(await scenario.clusters()) == 1


@virtually
async def test_a_job_managed_elsewhere_is_left_alone() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(managedBy="kueue.x-k8s.io/multikueue")
        await asyncio.sleep(60)
        assert (await scenario.job()).status.job_deployment_status == ""
        assert await scenario.clusters() == []


@virtually
async def test_questions_end_with_the_manager() -> None:
    async with a_scenario() as scenario:
        async with operator(scenario):
            await scenario.create(**HTTP)
            await scenario.until(is_running)
        asked = len(scenario.ray.calls)
        await asyncio.sleep(120)
        assert len(scenario.ray.calls) == asked


@virtually
async def test_c56_a_submission_whose_reply_and_whose_head_are_lost_is_not_repeated() -> None:
    """Ray never said a word on the job: only what was written down before tells that it had it."""
    posted = {"now": False, "storm": True}

    def weather(method: str, _path: str) -> str:
        posted["now"] |= method == "POST"
        if not posted["storm"] or not posted["now"]:
            return ""
        return "lose-reply" if method == "POST" else "500"

    async with a_scenario(weather=weather) as scenario, operator(scenario):
        await scenario.create(**HTTP)
        async with asyncio.timeout(60):
            while not scenario.ray.executions:
                await asyncio.sleep(0.01)
        assert (await scenario.job()).status.job_status == ""
        await scenario.kill_head()
        await asyncio.sleep(5)
        posted["storm"] = False
        await scenario.until(failed, 60)
        assert len(scenario.ray.executions) == 1
