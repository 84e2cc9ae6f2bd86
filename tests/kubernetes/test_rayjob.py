"""RayJobs on a whole control plane: every way to submit, and every way to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, PODS
from support.operator_fixture import OperatorFixture, until
from support.operator_objects import a_cluster, a_job
from support.virtual import running

Json = dict[str, Any]


def is_running(status: Json) -> bool:
    return bool(status.get("jobStatus") == "RUNNING")


def complete(status: Json) -> bool:
    return bool(status.get("jobDeploymentStatus") == "Complete")


def failed(status: Json) -> bool:
    return bool(status.get("jobDeploymentStatus") == "Failed")


def service_of(status: Json) -> str:
    return f"{status['rayClusterName']}-head-svc"


def end(
    operator_fixture: OperatorFixture, found: Json, outcome: str = "SUCCEEDED", message: str = ""
) -> None:
    """What Ray says about the job of this RayJob from now on."""
    status = found["status"]
    head = operator_fixture.ray.head(operator_fixture.namespace, service_of(status))
    assert status["jobId"] in head.jobs
    operator_fixture.ray.end(head, status["jobId"], outcome, message)


def executions(operator_fixture: OperatorFixture, name: str) -> list[str]:
    return [
        job for service, job in operator_fixture.ray.executions if service.startswith(f"{name}-")
    ]


async def test_http_mode_runs_the_job_once_and_deletes_the_cluster(
    operated: OperatorFixture, name: str
) -> None:
    spec = {"submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True}
    await operated.make(RAY_JOBS, a_job(operated, name, **spec))
    found = await operated.until(RAY_JOBS, name, is_running)
    end(operated, found)
    found = await operated.until(RAY_JOBS, name, complete)
    assert (found["status"]["jobStatus"], found["status"]["succeeded"]) == ("SUCCEEDED", 1)
    assert executions(operated, name) == [found["status"]["jobId"]]
    await operated.until_gone(RAY_CLUSTERS, found["status"]["rayClusterName"])


@asynccontextmanager
async def submitters(operator_fixture: OperatorFixture, name: str) -> AsyncIterator[None]:
    """Plays what runs in the Pod of a submitter Job: it submits once, whoever else did."""

    async def submit() -> None:
        async def variables() -> list[Json]:
            job = await operator_fixture.get(JOBS, name)
            pods = await operator_fixture.all(PODS, f"job-name={name}")
            if job is None or not pods:
                return []
            env: list[Json] = job["spec"]["template"]["spec"]["containers"][0]["env"]
            return env

        env = {one["name"]: one.get("value", "") for one in await until(variables)}
        service = env["RAY_DASHBOARD_ADDRESS"].partition(".")[0]
        head, job_id = (
            operator_fixture.ray.head(operator_fixture.namespace, service),
            env["RAY_JOB_SUBMISSION_ID"],
        )
        if job_id not in head.jobs:
            operator_fixture.ray.start(service, head, job_id, "python main.py")
        await asyncio.Event().wait()

    async with running(submit()):
        yield


async def test_k8s_job_mode_follows_its_submitter_to_the_end(
    operated: OperatorFixture, name: str
) -> None:
    operated.nodes.script(f"job-name={name}", "exit=0@2")
    async with submitters(operated, name):
        await operated.make(RAY_JOBS, a_job(operated, name))
        found = await operated.until(RAY_JOBS, name, is_running)
        end(operated, found)
        found = await operated.until(RAY_JOBS, name, complete)
    assert found["status"]["jobStatus"] == "SUCCEEDED"
    assert len(executions(operated, name)) == 1
    await operated.until(JOBS, name, lambda status: status.get("succeeded") == 1)
    await operated.delete(RAY_JOBS, name)
    await operated.until_gone(JOBS, name)


async def test_interactive_mode_takes_the_id_that_the_user_gives(
    operated: OperatorFixture, name: str
) -> None:
    spec = {"submissionMode": "InteractiveMode", "entrypoint": None}
    await operated.make(RAY_JOBS, a_job(operated, name, **spec))
    found = await operated.until(
        RAY_JOBS, name, lambda one: one.get("jobDeploymentStatus") == "Waiting"
    )
    service = service_of(found["status"])
    head = operated.ray.head(operated.namespace, service)
    operated.ray.start(service, head, "mine", "python x.py")
    await operated.edit(RAY_JOBS, name, {"spec": {"jobId": "mine"}})
    found = await operated.until(RAY_JOBS, name, is_running)
    end(operated, found, "FAILED", "boom")
    found = await operated.until(RAY_JOBS, name, failed)
    assert (found["status"]["reason"], found["status"]["message"]) == ("AppFailed", "boom")


async def test_sidecar_mode_submits_from_the_head(operated: OperatorFixture, name: str) -> None:
    await operated.make(RAY_JOBS, a_job(operated, name, submissionMode="SidecarMode"))
    found = await operated.until(RAY_JOBS, name, lambda one: one.get("rayClusterName"))
    [head_pod] = await operated.until_pods(1, found["status"]["rayClusterName"], "head")
    assert "ray-job-submitter" in {one["name"] for one in head_pod["spec"]["containers"]}
    status = found["status"]
    service = service_of(status)
    head = operated.ray.head(operated.namespace, service)
    operated.ray.start(service, head, status["jobId"], "python main.py")
    found = await operated.until(RAY_JOBS, name, is_running)
    end(operated, found)
    operated.nodes.end(
        operated.key(head_pod["metadata"]["name"]), 0, "Completed", "ray-job-submitter"
    )
    found = await operated.until(RAY_JOBS, name, complete)
    assert len(executions(operated, name)) == 1


async def test_a_failed_job_is_tried_again_on_a_new_cluster(
    operated: OperatorFixture, name: str
) -> None:
    spec = {"submissionMode": "HTTPMode", "backoffLimit": 1}
    await operated.make(RAY_JOBS, a_job(operated, name, **spec))
    first = await operated.until(RAY_JOBS, name, is_running)
    end(operated, first, "FAILED", "first")

    def again(status: Json) -> bool:
        return is_running(status) and status["jobId"] != first["status"]["jobId"]

    second = await operated.until(RAY_JOBS, name, again)
    assert second["status"]["rayClusterName"] != first["status"]["rayClusterName"]
    assert second["status"]["failed"] == 1
    end(operated, second, "FAILED", "second")
    found = await operated.until(RAY_JOBS, name, failed)
    assert found["status"]["message"] == "second"
    assert len(executions(operated, name)) == 2


async def test_a_suspended_job_gives_its_cluster_back(operated: OperatorFixture, name: str) -> None:
    spec = {"submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True}
    await operated.make(RAY_JOBS, a_job(operated, name, **spec))
    first = await operated.until(RAY_JOBS, name, is_running)
    await operated.edit(RAY_JOBS, name, {"spec": {"suspend": True}})
    await operated.until(RAY_JOBS, name, lambda one: one.get("jobDeploymentStatus") == "Suspended")
    await operated.until_gone(RAY_CLUSTERS, first["status"]["rayClusterName"])
    await operated.edit(RAY_JOBS, name, {"spec": {"suspend": False}})
    second = await operated.until(RAY_JOBS, name, is_running)
    assert second["status"]["jobId"] != first["status"]["jobId"]
    assert len(executions(operated, name)) == 2


async def test_deletion_rules_take_the_workers_and_then_everything(
    operated: OperatorFixture, name: str
) -> None:
    rules = [
        {"policy": policy, "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": seconds}}
        for policy, seconds in (("DeleteWorkers", 1), ("DeleteCluster", 5), ("DeleteSelf", 7))
    ]
    spec = {"submissionMode": "HTTPMode", "deletionStrategy": {"deletionRules": rules}}
    await operated.make(RAY_JOBS, a_job(operated, name, **spec))
    found = await operated.until(RAY_JOBS, name, is_running)
    end(operated, found)
    cluster = found["status"]["rayClusterName"]
    await operated.until_pods(0, cluster)
    assert len(await operated.pods(cluster, "head")) == 1
    await operated.until_gone(RAY_CLUSTERS, cluster)
    await operated.until_gone(RAY_JOBS, name)


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_deleted_job_is_stopped_if_ray_can_be_reached_and_gone_in_any_case(
    operated: OperatorFixture, name: str, reachable: bool
) -> None:
    await operated.make(RAY_JOBS, a_job(operated, name, submissionMode="HTTPMode"))
    found = await operated.until(RAY_JOBS, name, is_running)
    assert found["metadata"]["finalizers"] == ["ray.io/rayjob-finalizer"]
    head = operated.ray.head(operated.namespace, service_of(found["status"]))
    try:
        if not reachable:
            operated.ray.weather = lambda method, path: "500"
        await operated.delete(RAY_JOBS, name)
        await operated.until_gone(RAY_JOBS, name)
    finally:
        operated.ray.weather = lambda method, path: ""
    state = head.jobs[found["status"]["jobId"]].status
    assert state == ("STOPPED" if reachable else "RUNNING")
    await operated.until_gone(RAY_CLUSTERS, found["status"]["rayClusterName"])


async def test_a_job_on_a_cluster_that_is_there_leaves_it_there(
    operated: OperatorFixture, name: str
) -> None:
    await operated.make(RAY_CLUSTERS, a_cluster(operated, name))
    await operated.until(RAY_CLUSTERS, name, lambda one: one.get("state") == "ready")
    spec = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": name}}
    await operated.make(RAY_JOBS, a_job(operated, name, submissionMode="HTTPMode", **spec))
    found = await operated.until(RAY_JOBS, name, is_running)
    assert found["status"]["rayClusterName"] == name
    end(operated, found)
    await operated.until(RAY_JOBS, name, complete)
    await operated.delete(RAY_JOBS, name)
    await operated.until_gone(RAY_JOBS, name)
    kept = await operated.get(RAY_CLUSTERS, name)
    assert kept is not None
    assert "deletionTimestamp" not in kept["metadata"]
