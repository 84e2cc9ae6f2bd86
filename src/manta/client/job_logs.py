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

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import PODS
from manta.api.well_known import LABEL_JOB_NAME
from manta.client.auth_token import target_of
from manta.client.dashboard_access import DashboardAccess, DashboardError, NotAllowedError
from manta.client.log_tail import tail_of
from manta.client.watch import watch_object, watch_objects
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound, Unreachable
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.ray.models import Target

Document = dict[str, Any]
Print = Callable[[bytes], None]
FINISHED = ("Complete", "Failed", "ValidationFailed")
_BETWEEN_CLUSTERS = ("Suspending", "Suspended", "Retrying")
_BEFORE_ITS_CLUSTER = ("", "Initializing", "Waiting")
POLL_SECONDS = 1.0


def to_stdout(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)
    sys.stdout.flush()


async def print_job_log(client: Client, key: Key, *, follow: bool, out: Print = to_stdout) -> None:
    async with aclosing(job_log(client, key, follow=follow)) as chunks:
        async for chunk in chunks:
            out(chunk)


async def job_log(
    client: Client, key: Key, *, follow: bool, tail: int = 0
) -> AsyncGenerator[bytes, None]:
    """The log, in chunks; with `follow`, until the job has finished; with `tail`, from its last lines on.

    Raises NoLogError, NotFound, and DashboardError where Ray's dashboard has the log.
    """
    job = await client.get(RAY_JOBS, key, into=RayJob)
    mode = job.spec.submission_mode or SubmissionMode.K8S_JOB
    if mode == SubmissionMode.K8S_JOB:
        log = _submitter_logs(client, key, follow=follow, tail=tail)
    elif mode == SubmissionMode.SIDECAR:
        log = _sidecar_log(client, job, follow=follow, tail=tail)
    else:
        log = _dashboard_log(client, key, follow=follow, tail=tail)
    async with aclosing(log) as chunks:
        async for chunk in chunks:
            yield chunk


# ── submitter Pods ───────────────────────────────────────────────────────────────────────


def submitters_of(key: Key) -> str:
    return f"{names.LABEL_ORIGIN_NAME}={key.name},{LABEL_JOB_NAME}"


async def _submitter_logs(
    client: Client, key: Key, *, follow: bool, tail: int
) -> AsyncGenerator[bytes, None]:
    if follow:
        async with aclosing(submitter_pods(client, key)) as pods:
            async for name in pods:
                async for chunk in pod_log(
                    client, Key(key.namespace, name), follow=True, tail=tail
                ):
                    yield chunk
        return
    found = (await client.list(PODS, key.namespace, labels=submitters_of(key))).items
    started = sorted((pod for pod in found if _has_started(pod)), key=_created)
    if not started:
        raise NoLogError(f"RayJob {key} has no log yet: `manta status` shows why")
    # A submitter that found another Ray session than its own printed nothing of the job.
    chosen = [pod for pod in started if not _found_other_session(pod)] or started
    last = Key(key.namespace, chosen[-1]["metadata"]["name"])
    async for chunk in pod_log(client, last, tail=tail):
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
    client: Client,
    key: Key,
    *,
    container: str = "",
    follow: bool = False,
    tail: int = 0,
    previous: bool = False,
) -> AsyncGenerator[bytes, None]:
    """The log of a container, in chunks; with `tail` from its last lines on; `previous`: before its last restart."""
    wanted = {
        "container": container,
        "follow": "true" if follow else "",
        "tailLines": str(tail) if tail else "",
        "previous": "true" if previous else "",
    }
    query = tuple((name, value) for name, value in wanted.items() if value)
    async with client.stream(PODS.path(key.namespace, key.name, "log"), query=query) as stream:
        async for chunk in stream.chunks():
            yield chunk


# ── sidecar and dashboard ────────────────────────────────────────────────────────────────


async def _sidecar_log(
    client: Client, job: RayJob, *, follow: bool, tail: int
) -> AsyncGenerator[bytes, None]:
    cluster, namespace = job.status.ray_cluster_name, job.metadata.namespace
    labels = f"{names.LABEL_CLUSTER}={cluster},{names.LABEL_NODE_TYPE}={names.NODE_HEAD}"
    found = (await client.list(PODS, namespace, labels=labels)).items
    if not found:
        raise _no_log(job)
    key = Key(namespace, found[0]["metadata"]["name"])
    submitter = names.CONTAINER_SUBMITTER
    async for chunk in pod_log(client, key, container=submitter, follow=follow, tail=tail):
        yield chunk


async def _dashboard_log(
    client: Client, key: Key, *, follow: bool, tail: int
) -> AsyncGenerator[bytes, None]:
    """Raises NoLogError, and DashboardError unless the dashboard may answer later. A log that was followed may end
    with its cluster before its last lines were read."""
    printed, heard, attempt = 0, False, ""
    while True:
        job = await client.get(RAY_JOBS, key, into=RayJob)
        if job.status.job_id != attempt:
            printed, heard, attempt = 0, False, job.status.job_id
        is_last = not follow or job.status.job_deployment_status in FINISHED
        target = await target_of_job(client, job) if attempt else None
        try:
            if target is not None:
                dashboard = DashboardAccess.through_api_server(client, target)
                log = dashboard.log(attempt)
                async with aclosing(_from(log, printed, 0 if printed else tail)) as chunks:
                    async for end, chunk in chunks:
                        printed = end
                        yield chunk
                heard = True
            elif is_last and not (heard or printed):
                raise _no_log(job)
        except (DashboardError, Unreachable) as error:
            later = follow and not isinstance(error, NotAllowedError)
            if not later or (is_last and not (heard or printed)):
                raise
        if is_last:
            return
        # The dashboard returns the whole log each time: poll a longer log less often.
        await asyncio.sleep(POLL_SECONDS + printed / 1_000_000)


async def _from(
    log: AsyncGenerator[bytes, None], printed: int, tail: int
) -> AsyncGenerator[tuple[int, bytes], None]:
    """What comes after the first `printed` bytes, with `tail` only its last lines; each with where it ends."""
    async with aclosing(log):
        if tail:
            last = await tail_of(log, tail)
            yield last.seen, last.text()
            return
        at = 0
        async for chunk in log:
            new = chunk[max(0, printed - at) :]
            at += len(chunk)
            if new:
                yield at, new


async def target_of_job(client: Client, job: RayJob) -> Target | None:
    """The dashboard of the job's cluster, with its token; None: there is no cluster. Raises TokenError."""
    if not job.status.ray_cluster_name:
        return None
    key = Key(job.metadata.namespace, job.status.ray_cluster_name)
    try:
        cluster = await client.get(RAY_CLUSTERS, key, into=RayCluster)
    except NotFound:
        return None
    return await target_of(client, cluster)


async def is_in_history_only(client: Client, key: Key) -> bool:
    """Whether the newest history of this name is that of the RayJob: it, or its cluster, does not exist any more, or it is
    over and its log is gone. What has not begun has none: that is of an earlier job with its name."""
    try:
        status = (await client.get(RAY_JOBS, key, into=RayJob)).status
        stage, name = status.job_deployment_status, status.ray_cluster_name
        if stage in _BETWEEN_CLUSTERS:
            return True
        if stage in _BEFORE_ITS_CLUSTER or not name:  # its cluster may be refused
            return False
        if stage in FINISHED:  # its cluster may have lost the head, and the submitter its Pod
            return bool(status.dashboard_url or status.job_status)
        await client.get(RAY_CLUSTERS, Key(key.namespace, name))
    except NotFound:
        return True
    return False


def _no_log(job: RayJob) -> NoLogError:
    message = job.status.message
    last = f"; the last message of Ray:\n{message}" if message else ""
    return NoLogError(
        f"RayJob {job.metadata.key}: its cluster {job.status.ray_cluster_name or '(none yet)'} does not "
        f"exist, and in {job.spec.submission_mode} only the cluster has the log (K8sJobMode keeps it){last}"
    )
