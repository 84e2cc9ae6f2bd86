"""A scenario for RayJobs: the embedded server, Pods that run, submitters that submit, a Ray that can misbehave.

Submitters behave as the command in them does: they ask whether Ray knows the id, submit if not and if the head
is the one that they are for, follow, and are started again when what they follow is lost. A head that is deleted
takes its memory along. (`test_submitter_command` runs the command itself.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from manta.api.meta import Key
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import EVENTS, JOBS, PODS
from manta.api.times import format_time
from manta.controllers.raycluster import controller as raycluster
from manta.controllers.rayjob import controller as rayjob
from manta.kube.client import Client
from manta.kube.errors import ApiError
from manta.ray.dashboard import Dashboard
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support.fake_ray import FakeHead, FakeRay
from support.plane import MemoryPlane
from support.raycluster import NAMESPACE, Kubelet
from support.raycrds import ray_crds
from support.rayjob import ray_job
from support.virtual import running, virtual_plane

KEY = Key(NAMESPACE, "demo")
SUBMITTER = "ray-job-submitter"
POD_BACKOFF = 10.0
"""How long Kubernetes waits before it starts a failed submitter again."""
Check = Callable[[RayJob], object]


@dataclass
class Scenario:
    plane: MemoryPlane
    ray: FakeRay
    kubelet: Kubelet
    submits_after: float = 0.5
    loses_reply: bool = False
    """The first submission arrives, but its submitter never learns of it, and fails."""
    exit_code: int = 0
    """What submitters beside the head end with, whatever became of the job."""

    @property
    def client(self) -> Client:
        return self.plane.client

    async def create(self, name: str = "demo", **spec: Any) -> None:
        await self.client.create(RAY_JOBS, NAMESPACE, ray_job(name, **spec))

    async def job(self, key: Key = KEY) -> RayJob:
        return await self.client.get(RAY_JOBS, key, into=RayJob)

    async def patch(self, **spec: Any) -> None:
        await self.client.patch(RAY_JOBS, KEY, {"spec": spec})

    async def until(self, check: Check, seconds: float = 600, key: Key = KEY) -> RayJob:
        try:
            async with asyncio.timeout(seconds):
                while not check(job := await self.job(key)):
                    await asyncio.sleep(0.25)
        except TimeoutError:
            last = (await self.job(key)).status
            raise AssertionError(f"it did not come to pass; last: {last}") from None
        return job

    async def until_gone(self, seconds: float = 60) -> float:
        """How long it took until the RayJob was gone."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(seconds):
            while (await self.client.list(RAY_JOBS, NAMESPACE)).items:
                await asyncio.sleep(0.25)
        return asyncio.get_running_loop().time() - began

    async def clusters(self, *, alive: bool = False) -> list[dict[str, Any]]:
        found = (await self.client.list(RAY_CLUSTERS, NAMESPACE)).items
        return [one for one in found if not alive or "deletionTimestamp" not in one["metadata"]]

    async def submitters(self) -> list[dict[str, Any]]:
        return (await self.client.list(JOBS, NAMESPACE)).items

    def head_of(self, job: RayJob) -> FakeHead:
        return self.ray.head(NAMESPACE, f"{job.status.ray_cluster_name}-head-svc")

    def end(self, job: RayJob, status: str, message: str = "") -> None:
        self.ray.end(self.head_of(job), job.status.job_id, status, message)

    async def kill_head(self) -> None:
        """As an eviction does: the Pod goes, and another one may come."""
        pods = (await self.client.list(PODS, NAMESPACE, labels="ray.io/node-type=head")).items
        for pod in pods:
            await self.client.delete(PODS, Key(NAMESPACE, pod["metadata"]["name"]))

    async def events(self) -> list[tuple[str, str]]:
        found = (await self.client.list(EVENTS, NAMESPACE)).items
        return [(one["type"], one["reason"]) for one in found]

    @asynccontextmanager
    async def opened(self, _args: object) -> AsyncIterator[Client]:
        """In place of the connection that a command opens."""
        yield self.client

    # ── what runs in Pods ────────────────────────────────────────────────────────────────

    async def play_submitters(self) -> None:
        """The Jobs of K8sJobMode."""
        seen: set[str] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                async for event in self.client.watch(JOBS, initial_events=True):
                    if event.type == "ADDED" and event.object["metadata"]["uid"] not in seen:
                        seen.add(event.object["metadata"]["uid"])
                        tasks.create_task(self._run_job(event.object))

    async def _run_job(self, job: dict[str, Any]) -> None:
        env = _env(job["spec"]["template"]["spec"]["containers"][0])
        service = env["RAY_DASHBOARD_ADDRESS"].partition(".")[0]
        limit = job["spec"]["backoffLimit"]
        for attempt in range(limit + 1):
            if attempt:
                await asyncio.sleep(POD_BACKOFF)
            if not await self._is_there(job):
                return None
            session = env.get("MANTA_RAY_SESSION", "")
            if await self._submit_and_follow(service, env["RAY_JOB_SUBMISSION_ID"], session):
                return await self._finish_job(job, "Complete")
        return await self._finish_job(job, "Failed")

    async def _submit_and_follow(self, service: str, job_id: str, session: str = "") -> bool:
        """False: what was followed is lost, or the head is not the one that it is meant for."""
        await asyncio.sleep(self.submits_after)
        head = self.ray.head(NAMESPACE, service)
        if job_id not in head.jobs:
            if session and head.session != session:
                return False
            self.ray.start(service, head, job_id, "python main.py")
            if self.loses_reply:
                return False
        while self.ray.head(NAMESPACE, service) is head:
            if head.jobs[job_id].status != "RUNNING":
                await asyncio.sleep(0.5)
                return True
            await asyncio.sleep(0.5)
        return False

    async def _is_there(self, job: dict[str, Any]) -> bool:
        found = (await self.client.list(JOBS, NAMESPACE)).items
        return any(one["metadata"]["uid"] == job["metadata"]["uid"] for one in found)

    async def _finish_job(self, job: dict[str, Any], how: str) -> None:
        condition = {
            "type": how,
            "status": "True",
            "message": "BackoffLimitExceeded" if how == "Failed" else "",
            "lastTransitionTime": _text_now(self.plane),
        }
        body = {"status": {"conditions": [condition]}}
        key = Key(NAMESPACE, job["metadata"]["name"])
        try:
            await self.client.patch(JOBS, key, body, subresource="status")
        except ApiError:
            return

    async def play_heads(self) -> None:
        """Heads lose their memory with their Pod; beside some of them a submitter runs."""
        begun: set[str] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                labels = "ray.io/node-type=head"
                async for event in self.client.watch(PODS, labels=labels, initial_events=True):
                    if event.type == "BOOKMARK":
                        continue
                    pod, uid = event.object, event.object["metadata"]["uid"]
                    service = f"{pod['metadata']['labels']['ray.io/cluster']}-head-svc"
                    if event.type == "DELETED":
                        self.ray.restart_head(NAMESPACE, service)
                    elif uid not in begun and pod.get("status", {}).get("phase") == "Running":
                        begun.add(uid)
                        tasks.create_task(self._run_sidecar(pod, service))

    async def _run_sidecar(self, pod: dict[str, Any], service: str) -> None:
        for container in pod["spec"]["containers"]:
            if container["name"] == SUBMITTER:
                job_id = _env(container)["RAY_JOB_SUBMISSION_ID"]
                won = await self._submit_and_follow(service, job_id)
                await self.end_sidecar(pod, self.exit_code if won else 1)

    async def end_sidecar(self, pod: dict[str, Any], exit_code: int) -> None:
        key = Key(NAMESPACE, pod["metadata"]["name"])
        try:
            now = await self.client.get(PODS, key)
        except ApiError:
            return  # it went with its Pod
        statuses = now["status"]["containerStatuses"]
        ended = {"exitCode": exit_code, "finishedAt": _text_now(self.plane)}
        for one in statuses:
            if one["name"] == SUBMITTER:
                one |= {"state": {"terminated": ended}, "ready": False}
        body = {"status": {"containerStatuses": statuses}}
        await self.client.patch(PODS, key, body, subresource="status")


def _env(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container.get("env", ())}


def _text_now(plane: MemoryPlane) -> str:
    return format_time(plane.clock.now())


@asynccontextmanager
async def a_scenario(**ray: Any) -> AsyncIterator[Scenario]:
    async with virtual_plane(crds=ray_crds()) as plane:
        scenario = Scenario(plane, FakeRay(**ray), Kubelet(plane.client))
        async with running(
            scenario.kubelet.run(), scenario.play_submitters(), scenario.play_heads()
        ):
            yield scenario


@asynccontextmanager
async def operator(
    scenario: Scenario,
    client: Client | None = None,
    settings: Settings | None = None,
    seed: int = 7,
) -> AsyncIterator[Manager]:
    chosen = settings or Settings()
    manager = Manager(client or scenario.client, scenario.plane.clock, Random(seed))
    raycluster.build(manager, chosen)
    rayjob.build(manager, chosen, Dashboard(scenario.ray))
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        manager.stop()
        await asyncio.gather(task, return_exceptions=True)


def complete(job: RayJob) -> bool:
    return job.status.job_deployment_status == "Complete"


def failed(job: RayJob) -> bool:
    return job.status.job_deployment_status == "Failed"


def is_running(job: RayJob) -> bool:
    return job.status.job_status == "RUNNING"


def has_deployment_status(name: str) -> Check:
    return lambda job: job.status.job_deployment_status == name
