"""The log of a RayJob.

In K8sJobMode the submitter's Pod has it, even after the cluster is deleted. In SidecarMode a container
of the head Pod has it. In the other modes only the dashboard has it, and loses it with the cluster.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import PODS
from manta.api.well_known import LABEL_JOB_NAME
from manta.client.dashboard import ProxyTransport
from manta.client.watch import watch_object, watch_objects
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.ray.dashboard import job_path
from manta.ray.models import Target, Unreachable
from manta.rules.traits import head_service_name

Document = dict[str, Any]
Print = Callable[[bytes], None]
FINISHED = ("Complete", "Failed", "ValidationFailed")
POLL_SECONDS = 1.0
MAX_LOG = 512 * 1024 * 1024
"""Bytes of a log that the dashboard may return."""


def to_stdout(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)
    sys.stdout.flush()


async def print_job_log(client: Client, key: Key, *, follow: bool, out: Print = to_stdout) -> None:
    async with aclosing(job_log(client, key, follow=follow)) as chunks:
        async for chunk in chunks:
            out(chunk)


async def job_log(client: Client, key: Key, *, follow: bool) -> AsyncGenerator[bytes, None]:
    """The log, in chunks; with `follow`, until the job has finished. Raises NoLogError and NotFound."""
    job = await client.get(RAY_JOBS, key, into=RayJob)
    mode = job.spec.submission_mode or SubmissionMode.K8S_JOB
    if mode == SubmissionMode.K8S_JOB:
        log = _submitter_logs(client, key, follow=follow)
    elif mode == SubmissionMode.SIDECAR:
        log = _sidecar_log(client, job, follow=follow)
    else:
        log = _dashboard_logs(client, key, follow=follow)
    async with aclosing(log) as chunks:
        async for chunk in chunks:
            yield chunk


# ── submitter Pods ───────────────────────────────────────────────────────────────────────


def submitters_of(key: Key) -> str:
    return f"{names.LABEL_ORIGIN_NAME}={key.name},{LABEL_JOB_NAME}"


async def _submitter_logs(client: Client, key: Key, *, follow: bool) -> AsyncGenerator[bytes, None]:
    if follow:
        async with aclosing(submitter_pods(client, key)) as pods:
            async for name in pods:
                async for chunk in pod_log(client, Key(key.namespace, name), follow=True):
                    yield chunk
        return
    found = (await client.list(PODS, key.namespace, labels=submitters_of(key))).items
    started = sorted((pod for pod in found if _has_started(pod)), key=_created)
    if not started:
        raise NoLogError(f"RayJob {key} has no log yet: `manta status` shows why")
    # A submitter that found another Ray session than its own printed nothing of the job.
    chosen = [pod for pod in started if not _found_other_session(pod)] or started
    async for chunk in pod_log(client, Key(key.namespace, chosen[-1]["metadata"]["name"])):
        yield chunk


class NoLogError(MantaError):
    """There is no log."""


async def submitter_pods(client: Client, key: Key) -> AsyncGenerator[str, None]:
    """The name of each submitter Pod when it has started; ends when the RayJob has finished."""
    found: asyncio.Queue[str | None] = asyncio.Queue()
    watches = (_started_submitters(client, key, found), _end_of_job(client, key, found))
    tasks = [asyncio.create_task(one) for one in watches]
    seen: set[str] = set()
    try:
        while (name := await _next_of(found, tasks)) is not None:
            if name not in seen:
                seen.add(name)
                yield name
        listing = await client.list(PODS, key.namespace, labels=submitters_of(key))
        for pod in sorted(listing.items, key=_created):
            if _has_started(pod) and pod["metadata"]["name"] not in seen:
                yield pod["metadata"]["name"]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _next_of(
    found: asyncio.Queue[str | None], tasks: Sequence[asyncio.Task[None]]
) -> str | None:
    """The next item. Raises the error of a task that has failed."""
    item = asyncio.create_task(found.get())
    try:
        while not item.done():
            running = [task for task in tasks if not task.done()]
            done, _ = await asyncio.wait([item, *running], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {item}:
                task.result()
        return item.result()
    finally:
        item.cancel()


async def _started_submitters(client: Client, key: Key, found: asyncio.Queue[str | None]) -> None:
    all_pods = Key(key.namespace, "")
    async for change, pod in watch_objects(client, PODS, all_pods, submitters_of(key)):
        if change != "DELETED" and _has_started(pod):
            found.put_nowait(pod["metadata"]["name"])


async def _end_of_job(client: Client, key: Key, found: asyncio.Queue[str | None]) -> None:
    async with aclosing(watch_object(client, RAY_JOBS, key)) as changes:
        async for job in changes:
            status = (job or {}).get("status") or {}
            if job is None or status.get("jobDeploymentStatus") in FINISHED:
                found.put_nowait(None)
                return


def _created(pod: Document) -> str:
    return str(pod["metadata"]["creationTimestamp"])


def _has_started(pod: Document) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any({"running", "terminated"} & set(one.get("state") or {}) for one in statuses)


def _found_other_session(pod: Document) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [(one.get("state") or {}).get("terminated") or {} for one in statuses]
    return any(end.get("exitCode") == OTHER_SESSION_EXIT_CODE for end in ends)


async def stream_pod(
    client: Client, key: Key, out: Print, *, container: str = "", follow: bool = False
) -> None:
    async for chunk in pod_log(client, key, container=container, follow=follow):
        out(chunk)


async def pod_log(
    client: Client, key: Key, *, container: str = "", follow: bool = False, tail: int = 0
) -> AsyncGenerator[bytes, None]:
    """The log of a container, in chunks; with `tail` only its last lines."""
    wanted = {
        "container": container,
        "follow": "true" if follow else "",
        "tailLines": str(tail) if tail else "",
    }
    query = tuple((name, value) for name, value in wanted.items() if value)
    async with client.stream(PODS.path(key.namespace, key.name, "log"), query=query) as stream:
        async for chunk in stream.chunks():
            yield chunk


# ── sidecar and dashboard ────────────────────────────────────────────────────────────────


async def _sidecar_log(client: Client, job: RayJob, *, follow: bool) -> AsyncGenerator[bytes, None]:
    cluster, namespace = job.status.ray_cluster_name, job.metadata.namespace
    labels = f"{names.LABEL_CLUSTER}={cluster},{names.LABEL_NODE_TYPE}={names.NODE_HEAD}"
    found = (await client.list(PODS, namespace, labels=labels)).items
    if not found:
        raise _no_log(job)
    key = Key(namespace, found[0]["metadata"]["name"])
    submitter = names.CONTAINER_SUBMITTER
    async for chunk in pod_log(client, key, container=submitter, follow=follow):
        yield chunk


async def _dashboard_logs(client: Client, key: Key, *, follow: bool) -> AsyncGenerator[bytes, None]:
    printed = 0
    while True:
        job = await client.get(RAY_JOBS, key, into=RayJob)
        text = await _dashboard_log(client, job)
        if text is None and not printed and not follow:
            raise _no_log(job)
        data = (text or "").encode()
        yield data[printed:]
        printed = max(printed, len(data))
        if not follow or job.status.job_deployment_status in FINISHED:
            return
        # The dashboard returns the whole log each time: poll a longer log less often.
        await asyncio.sleep(POLL_SECONDS + printed / 1_000_000)


async def _dashboard_log(client: Client, job: RayJob) -> str | None:
    """The log so far; None if the dashboard is not reachable or does not have it."""
    target = await dashboard_of(client, job)
    if target is None or not job.status.job_id:
        return None
    path = job_path(job.status.job_id, "logs")
    transport = ProxyTransport(client, timeout=30, limit=MAX_LOG)
    reply = await transport.send(target, "GET", path)
    if isinstance(reply, Unreachable) or reply.status != 200:
        return None
    return str(msgspec.json.decode(reply.body).get("logs") or "")


async def dashboard_of(client: Client, job: RayJob) -> Target | None:
    namespace = job.metadata.namespace
    if not job.status.ray_cluster_name:
        return None
    try:
        cluster = await client.get(
            RAY_CLUSTERS, Key(namespace, job.status.ray_cluster_name), into=RayCluster
        )
    except MantaError:
        return None
    return Target(namespace, head_service_name(cluster), host="")


def _no_log(job: RayJob) -> NoLogError:
    message = job.status.message
    last = f"; the last message of Ray:\n{message}" if message else ""
    return NoLogError(
        f"RayJob {job.metadata.key}: its cluster {job.status.ray_cluster_name or '(none yet)'} does not "
        f"exist, and in {job.spec.submission_mode} only the cluster has the log (K8sJobMode keeps it){last}"
    )
