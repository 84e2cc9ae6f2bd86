"""What a RayJob printed, wherever it is kept now.

The submitter's Pod has the log in K8sJobMode, also when the cluster is gone; beside the head it has it
in SidecarMode. In the other modes only the cluster's dashboard knows it, and takes it along when it goes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import PODS
from manta.cli.dashboards import ProxyCourier
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.ray.dashboard import job_path
from manta.ray.models import Target, Unreachable
from manta.rules.traits import head_service_name

Document = dict[str, Any]
Print = Callable[[bytes], None]
OVER = ("Complete", "Failed", "ValidationFailed")
POLL = 1.0
MAX_LOG = 512 * 1024 * 1024
"""Bytes of a log that are read into memory."""


def to_stdout(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)
    sys.stdout.flush()


async def print_job_log(client: Client, key: Key, *, follow: bool, out: Print = to_stdout) -> None:
    job = await client.get(RAY_JOBS, key, into=RayJob)
    mode = job.spec.submission_mode or SubmissionMode.K8S_JOB
    if mode == SubmissionMode.K8S_JOB:
        await _of_submitters(client, key, follow=follow, out=out)
    elif mode == SubmissionMode.SIDECAR:
        await _of_sidecar(client, job, follow=follow, out=out)
    else:
        await _of_dashboard(client, key, follow=follow, out=out)


# ── the submitter's Pods ─────────────────────────────────────────────────────────────────


def submitters_of(key: Key) -> str:
    return f"{names.LABEL_ORIGIN_NAME}={key.name},batch.kubernetes.io/job-name"


async def _of_submitters(client: Client, key: Key, *, follow: bool, out: Print) -> None:
    if follow:
        async with aclosing(submitter_pods(client, key)) as pods:
            async for name in pods:
                await stream_pod(client, Key(key.namespace, name), out, follow=True)
        return
    found = (await client.list(PODS, key.namespace, labels=submitters_of(key))).items
    began = sorted((pod for pod in found if _began(pod)), key=_born)
    if not began:
        raise NothingYetError(f"RayJob {key} has printed nothing yet: `manta status` says why")
    # One that met another head than its own has not printed a word of the job.
    chosen = [pod for pod in began if not _met_another_head(pod)] or began
    await stream_pod(client, Key(key.namespace, chosen[-1]["metadata"]["name"]), out)


class NothingYetError(MantaError):
    """There is no log to show."""


async def submitter_pods(client: Client, key: Key) -> AsyncGenerator[str, None]:
    """The names of the submitter's Pods, each once it has started; ends when the RayJob is over."""
    told: set[str] = set()
    while True:
        listing = await client.list(PODS, key.namespace, labels=submitters_of(key))
        for pod in sorted(listing.items, key=_born):
            name = pod["metadata"]["name"]
            if name not in told and _began(pod):
                told.add(name)
                yield name
                break
        else:
            if await _is_over(client, key):
                return
            await asyncio.sleep(POLL)


async def _is_over(client: Client, key: Key) -> bool:
    try:
        job = await client.get(RAY_JOBS, key, into=RayJob)
    except NotFound:
        return True
    return job.status.job_deployment_status in OVER


def _born(pod: Document) -> str:
    return str(pod["metadata"]["creationTimestamp"])


def _began(pod: Document) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any({"running", "terminated"} & set(one.get("state") or {}) for one in statuses)


def _met_another_head(pod: Document) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [(one.get("state") or {}).get("terminated") or {} for one in statuses]
    return any(end.get("exitCode") == OTHER_SESSION_EXIT_CODE for end in ends)


async def stream_pod(
    client: Client, key: Key, out: Print, *, container: str = "", follow: bool = False
) -> None:
    wanted = {"container": container, "follow": "true" if follow else ""}
    query = tuple((name, value) for name, value in wanted.items() if value)
    async with client.stream(PODS.path(key.namespace, key.name, "log"), query=query) as stream:
        async for chunk in stream.chunks():
            out(chunk)


# ── beside the head, and the dashboard ───────────────────────────────────────────────────


async def _of_sidecar(client: Client, job: RayJob, *, follow: bool, out: Print) -> None:
    cluster, namespace = job.status.ray_cluster_name, job.metadata.namespace
    labels = f"{names.LABEL_CLUSTER}={cluster},{names.LABEL_NODE_TYPE}={names.NODE_HEAD}"
    found = (await client.list(PODS, namespace, labels=labels)).items
    if not found:
        raise gone(job)
    key = Key(namespace, found[0]["metadata"]["name"])
    await stream_pod(client, key, out, container=names.CONTAINER_SUBMITTER, follow=follow)


async def _of_dashboard(client: Client, key: Key, *, follow: bool, out: Print) -> None:
    printed = 0
    while True:
        job = await client.get(RAY_JOBS, key, into=RayJob)
        text = await _dashboard_log(client, job)
        if text is None and not printed and not follow:
            raise gone(job)
        data = (text or "").encode()
        out(data[printed:])
        printed = max(printed, len(data))
        if not follow or job.status.job_deployment_status in OVER:
            return
        # The dashboard tells the whole log each time: ask more seldom the longer it is.
        await asyncio.sleep(POLL + printed / 1_000_000)


async def _dashboard_log(client: Client, job: RayJob) -> str | None:
    """None: nobody there knows it."""
    target = await dashboard_of(client, job)
    if target is None or not job.status.job_id:
        return None
    path = job_path(job.status.job_id, "logs")
    courier = ProxyCourier(client, timeout=30, limit=MAX_LOG)
    reply = await courier.send(target, "GET", path)
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


def gone(job: RayJob) -> NothingYetError:
    said = job.status.message
    last = f"; the last that Ray said of it:\n{said}" if said else ""
    return NothingYetError(
        f"RayJob {job.metadata.key}: its cluster {job.status.ray_cluster_name or '(none yet)'} is not "
        f"there, and in {job.spec.submission_mode} nobody else has the log (K8sJobMode keeps it){last}"
    )
