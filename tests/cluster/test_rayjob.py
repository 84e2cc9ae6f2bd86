"""RayJobs on the embedded server, under virtual time, with a Ray that can misbehave."""

from __future__ import annotations

import asyncio

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_JOBS
from manta.api.resources import PODS, SERVICES
from manta.controllers.rayjob.events import CONTROLLER
from manta.kube.client import Client
from manta.kube.errors import NotFound
from support.faults import FaultTransport
from support.raycluster import NAMESPACE, container, template
from support.rayjob_scenario import KEY, a_scenario, complete, failed, is_running, operator
from support.virtual import faulty, virtually


@virtually
async def test_http_mode_runs_the_job_once_and_completes() -> None:
    async with a_scenario(finish_after=30) as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        job = await scenario.until(complete)
        assert job.status.job_status == "SUCCEEDED"
        assert job.status.succeeded == 1
        assert len(scenario.ray.executions) == 1


@pytest.mark.parametrize("mode", ["K8sJobMode", "SidecarMode"])
def test_a_mode_with_a_submitter_runs_the_job_once_and_completes(mode: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario(finish_after=30) as scenario, operator(scenario):
            await scenario.create(submissionMode=mode)
            job = await scenario.until(complete)
            assert job.status.job_status == "SUCCEEDED"
            assert len(scenario.ray.executions) == 1

    scenario()


@virtually
async def test_the_head_service_has_the_ports_and_the_type_of_the_attempt_that_runs() -> None:
    """The RayJob is edited while it is suspended."""

    async def ports() -> dict[str, int]:
        found = await scenario.client.get(SERVICES, Key(NAMESPACE, "demo-head-svc"))
        by_name = {one["name"]: one["port"] for one in found["spec"]["ports"]}
        return {found["spec"]["type"]: by_name["dashboard"]}

    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(shutdownAfterJobFinishes=True)
        await scenario.until(is_running)
        assert await ports() == {"ClusterIP": 8265}
        await scenario.patch(suspend=True)
        await scenario.until(lambda job: job.status.job_deployment_status == "Suspended")
        pod = template(container(ports=[{"name": "dashboard", "containerPort": 9265}]))
        head = {"serviceType": "NodePort", "template": pod}
        await scenario.patch(rayClusterSpec={"headGroupSpec": head}, suspend=False)
        await scenario.until(is_running)
        await asyncio.sleep(10)
        assert await ports() == {"NodePort": 9265}


@virtually
async def test_interactive_mode_takes_the_id_that_the_user_gives() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="InteractiveMode", entrypoint=None)
        job = await scenario.until(lambda job: job.status.job_deployment_status == "Waiting")
        service = f"{job.status.ray_cluster_name}-head-svc"
        head = scenario.ray.head(NAMESPACE, service)
        scenario.ray.start(service, head, "mine", "python x.py")
        await scenario.plane.client.patch(RAY_JOBS, KEY, {"spec": {"jobId": "mine"}})
        await scenario.until(is_running)
        scenario.ray.end(head, "mine", "FAILED", "boom")
        job = await scenario.until(failed)
        assert (job.status.reason, job.status.message) == ("AppFailed", "boom")


@pytest.mark.parametrize("fault", ["", "hang", "500", "nonsense", "refuse"])
def test_a_failed_job_names_its_first_failed_task_if_ray_says_it(fault: str) -> None:
    def weather(method: str, path: str) -> str:
        return fault if path.startswith("/api/v0/") else ""

    @virtually
    async def scenario() -> None:
        async with a_scenario(weather=weather) as scenario, operator(scenario):
            await scenario.create(submissionMode="HTTPMode")
            job = await scenario.until(lambda job: job.status.job_status == "RUNNING")
            head = scenario.ray.head(NAMESPACE, f"{job.status.ray_cluster_name}-head-svc")
            head.failed_tasks.append({"name": "work", "error_message": "ValueError: seven"})
            scenario.ray.end(head, job.status.job_id, "FAILED", "boom")
            job = await scenario.until(failed)
            assert job.status.reason == "AppFailed"
            assert ("work: ValueError: seven" in job.status.message) == (not fault)
            assert job.status.message.startswith("boom")

    scenario()


@virtually
async def test_a_lost_reply_to_a_submission_runs_nothing_twice() -> None:
    lost = iter([True])

    def weather(method: str, path: str) -> str:
        return "lose-reply" if method == "POST" and next(lost, False) else ""

    async with a_scenario(weather=weather, finish_after=20) as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        await scenario.until(complete)
        assert len(scenario.ray.executions) == 1


@virtually
async def test_c56_a_head_that_comes_back_empty_fails_the_job() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        job = await scenario.until(is_running)
        pods = (
            await scenario.plane.client.list(PODS, NAMESPACE, labels="ray.io/node-type=head")
        ).items
        scenario.ray.restart_head(NAMESPACE, f"{job.status.ray_cluster_name}-head-svc")
        await scenario.plane.client.delete(PODS, Key(NAMESPACE, pods[0]["metadata"]["name"]))
        job = await scenario.until(failed, 120)
        assert job.status.reason == "AppFailed"
        await asyncio.sleep(60)
        assert len(scenario.ray.executions) == 1


@virtually
async def test_with_a_backoff_limit_a_lost_head_gets_one_new_attempt_on_a_new_cluster() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode", backoffLimit=1)
        first = (await scenario.until(is_running)).status
        scenario.ray.restart_head(NAMESPACE, f"{first.ray_cluster_name}-head-svc")
        pods = (
            await scenario.plane.client.list(PODS, NAMESPACE, labels="ray.io/node-type=head")
        ).items
        await scenario.plane.client.delete(PODS, Key(NAMESPACE, pods[0]["metadata"]["name"]))
        second = (
            await scenario.until(lambda job: is_running(job) and job.status.job_id != first.job_id)
        ).status
        assert second.ray_cluster_name != first.ray_cluster_name
        assert second.failed == 1
        assert len(scenario.ray.executions) == 2


@virtually
async def test_c40_a_dashboard_that_is_down_for_299_seconds_fails_nothing() -> None:
    down = {"since": 0.0}

    def weather(method: str, path: str) -> str:
        now = asyncio.get_running_loop().time()
        return "500" if down["since"] and now - down["since"] < 290 else ""

    async with a_scenario(weather=weather) as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        job = await scenario.until(is_running)
        down["since"] = asyncio.get_running_loop().time()
        await scenario.until(lambda job: job.status.job_status_check_failure_start_time is not None)
        await scenario.until(lambda job: job.status.job_status_check_failure_start_time is None)
        head = scenario.ray.head(NAMESPACE, f"{job.status.ray_cluster_name}-head-svc")
        scenario.ray.end(head, job.status.job_id, "SUCCEEDED")
        await scenario.until(complete)


@virtually
async def test_a_poll_that_raises_counts_as_no_answer_and_in_the_metrics() -> None:
    down = {"now": False}

    def weather(_method: str, _path: str) -> str:
        return str(1 // (not down["now"]))

    async with a_scenario(weather=weather) as scenario, operator(scenario) as manager:
        await scenario.create(submissionMode="HTTPMode")
        await scenario.until(is_running)
        down["now"] = True
        job = await scenario.until(lambda job: job.status.job_status_check_failure_start_time)
        [ready] = [one for one in job.status.conditions if one.type == "Ready"]
        assert (ready.status, ready.reason) == ("Unknown", "DashboardSilent")
        assert "poll failed: ZeroDivisionError" in ready.message
        job = await scenario.until(failed, 400)
        assert job.status.reason == "JobStatusCheckTimeoutExceeded"
        assert manager.metrics.failures.get(CONTROLLER, "poll") > 10


@virtually
async def test_a_dashboard_that_stays_down_fails_the_job_once() -> None:
    down = {"now": False}
    sky = {"weather": lambda method, path: "500" if down["now"] else ""}
    async with a_scenario(**sky) as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode", backoffLimit=2)
        await scenario.until(is_running)
        down["now"] = True
        job = await scenario.until(failed, 400)
        assert job.status.reason == "JobStatusCheckTimeoutExceeded"
        assert job.status.failed == 1


@virtually
async def test_c62_suspend_and_resume_submit_once_each_and_leave_nothing() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode", shutdownAfterJobFinishes=True)
        for round_ in range(3):
            await scenario.until(is_running)
            assert len(scenario.ray.executions) == round_ + 1
            await scenario.plane.client.patch(RAY_JOBS, KEY, {"spec": {"suspend": True}})
            await scenario.until(lambda job: job.status.job_deployment_status == "Suspended")
            assert await scenario.clusters() == []
            await scenario.plane.client.patch(RAY_JOBS, KEY, {"spec": {"suspend": False}})
        await scenario.until(is_running)


@pytest.mark.parametrize("ttl", [0, 5])
def test_c55_the_cluster_is_deleted_at_its_time(ttl: int) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario(finish_after=10) as scenario, operator(scenario):
            await scenario.create(
                submissionMode="HTTPMode",
                shutdownAfterJobFinishes=True,
                ttlSecondsAfterFinished=ttl,
            )
            job = await scenario.until(complete)
            began = asyncio.get_running_loop().time()
            async with asyncio.timeout(60):
                while any(
                    "deletionTimestamp" not in one["metadata"] for one in await scenario.clusters()
                ):
                    await asyncio.sleep(0.25)
            waited = asyncio.get_running_loop().time() - began
            assert ttl - 2 <= waited <= ttl + 2
            assert job.status.job_status == "SUCCEEDED"

    scenario()


@virtually
async def test_deletion_rules_are_carried_out_one_after_the_other() -> None:
    rules = [
        {"policy": policy, "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": seconds}}
        for policy, seconds in (("DeleteWorkers", 30), ("DeleteCluster", 60), ("DeleteSelf", 90))
    ]
    async with a_scenario(finish_after=10) as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode", deletionStrategy={"deletionRules": rules})
        await scenario.until(complete)
        await asyncio.sleep(40)
        [cluster] = await scenario.clusters()
        assert all(group["suspend"] for group in cluster["spec"]["workerGroupSpecs"])
        await asyncio.sleep(30)
        assert await scenario.clusters() == []
        await asyncio.sleep(30)
        with pytest.raises(NotFound):
            await scenario.job()


@virtually
async def test_c64_a_deleted_job_is_gone_although_its_dashboard_hangs() -> None:
    hanging = {"now": False}
    sky = {"weather": lambda method, path: "hang" if hanging["now"] else ""}
    async with a_scenario(**sky) as scenario, operator(scenario):
        await scenario.create(submissionMode="HTTPMode")
        await scenario.until(is_running)
        hanging["now"] = True
        await scenario.plane.client.delete(RAY_JOBS, KEY)
        await asyncio.sleep(30)
        with pytest.raises(NotFound):
            await scenario.job()


@virtually
async def test_a_running_job_at_rest_writes_nothing() -> None:
    async with a_scenario() as scenario:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            await scenario.create(submissionMode="HTTPMode")
            await scenario.until(is_running)
            await asyncio.sleep(30)
            before = _writes(faults)
            await asyncio.sleep(600)
            assert _writes(faults) == before


def _writes(faults: FaultTransport) -> int:
    return sum(1 for one in faults.log if one.method not in ("GET", "HEAD"))
