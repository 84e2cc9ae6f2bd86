"""What the operator would do with a RayJob now: for `manta plan`.

It reads the objects once and plans as a reconcile does. It writes nothing and queries no dashboard: the
status has the last job status of Ray.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any, cast

import msgspec

from manta.api.batch import Job
from manta.api.core import Pod, Service
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.ray.job import JobStatus, RayJobStatus
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, PODS, SERVICES
from manta.api.scheduling import PodGroup
from manta.api.times import format_time
from manta.controllers.rayjob.dashboard_query import DashboardQuery
from manta.controllers.rayjob.facts import ACTIVE, deadlines
from manta.controllers.rayjob.observe import (
    BY_CLUSTER,
    BY_JOB,
    CachedRayJob,
    Caches,
    Observer,
    by_cluster,
    by_job,
)
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.status import next_status
from manta.kube.client import Client
from manta.manifests.gang import pod_groups
from manta.ray.models import JobInfo, JobResult, Session, SessionResult
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.preview import (
    Document,
    Indexes,
    Preview,
    Reader,
    first_plan,
    live_and_wanted,
    with_finalizer,
)
from manta.rules.differences import differences
from manta.rules.job_deletion import deletions
from manta.rules.selection import RAY_PODS, SUBMITTER_PODS
from manta.rules.settings import Settings
from manta.runtime.clock import Clock

_INDEXES: Indexes = {BY_CLUSTER: by_cluster, BY_JOB: by_job}


class Effect(StrEnum):
    NOTHING = "nothing changes"
    INVALID = "nothing is done: the spec is invalid"
    STARTS = "an attempt starts on a new cluster"
    BORROWS = "an attempt starts on an existing cluster"
    STAYS_SUSPENDED = "it is suspended: nothing is created until spec.suspend is false"
    CONTINUES = "the attempt continues"
    SUSPENDED = "the job is stopped, and its cluster and submitter are deleted"
    RETRIED = "the attempt has failed: its cluster is deleted, and another attempt starts"
    FINISHED = "it has finished; only deletions are left"
    DELETED = "the job is stopped, and all its objects are deleted"


async def preview(
    client: Client,
    settings: Settings,
    clock: Clock,
    key: Key,
    manifest: Mapping[str, Any] | None = None,
) -> Preview | None:
    """Preview the live object, or the object with this manifest applied.

    None if there is no such object, or another operator manages it.
    """
    live, wanted = await live_and_wanted(client, RAY_JOBS, key, manifest)
    if wanted is None:
        return None
    snapshot = await _read_snapshot(client, settings, clock, key, wanted)
    return preview_of(snapshot, _changes(live, wanted)) if snapshot else None


def preview_of(snapshot: JobSnapshot, changes: tuple[str, ...] = ()) -> Preview:
    now, chosen = first_plan(snapshot, lambda one: plan(one).plan, _after_status)
    violations = tuple(str(one) for one in snapshot.violations)
    return Preview(_effect(now), chosen, violations, changes, tuple(_remarks(snapshot, changes)))


def _after_status(snapshot: JobSnapshot) -> JobSnapshot | None:
    new = _planned_status(snapshot)
    if new == snapshot.status:
        return None
    return replace(snapshot, job=msgspec.structs.replace(snapshot.job, status=new))


def _planned_status(snapshot: JobSnapshot) -> RayJobStatus:
    return next_status(snapshot, plan(snapshot), UNTRIED)


def _effect(snapshot: JobSnapshot) -> Effect:
    if snapshot.job.metadata.deletion_timestamp is not None:
        return Effect.DELETED
    match Stage(_planned_status(snapshot).job_deployment_status):
        case Stage.VALIDATION_FAILED:
            return Effect.INVALID
        case Stage.SUSPENDING:
            return Effect.SUSPENDED
        case Stage.SUSPENDED:
            return Effect.STAYS_SUSPENDED
        case Stage.RETRYING:
            return Effect.RETRIED
        case Stage.COMPLETE | Stage.FAILED:
            return Effect.FINISHED
        case Stage.INITIALIZING if snapshot.cluster is None:
            return Effect.BORROWS if snapshot.borrows_cluster else Effect.STARTS
        case _:
            return Effect.CONTINUES


def _remarks(snapshot: JobSnapshot, changes: tuple[str, ...]) -> Iterator[str]:
    if snapshot.stage in ACTIVE and any("rayClusterSpec" in one for one in changes):
        yield "the cluster of a running attempt keeps its spec; the next attempt gets the new one"
    if snapshot.stage in (Stage.COMPLETE, Stage.FAILED) and changes:
        yield "a finished RayJob does not run again: create a new one"
    for one in deletions(snapshot.job, snapshot.settings):
        if one.at > snapshot.now:
            yield f"{one.policy} at {format_time(one.at)}: {one.why}"
    if at := deadlines(snapshot.spec, snapshot.status).get("activeDeadlineSeconds"):
        yield f"activeDeadlineSeconds stops it at {format_time(at)}"


# ── the snapshot ─────────────────────────────────────────────────────────────────────────


async def _read_snapshot(
    client: Client, settings: Settings, clock: Clock, key: Key, wanted: Document
) -> JobSnapshot | None:
    document = with_finalizer(wanted, names.FINALIZER_RAY_JOB)
    job = msgspec.json.decode(msgspec.json.encode(document), type=CachedRayJob)
    reader = Reader(client, key.namespace, _INDEXES)
    listed, groups = reader.listed, pod_groups(settings)
    caches = Caches(
        jobs=reader.only(job),
        clusters=await listed(RAY_CLUSTERS, RayCluster),
        pods=await listed(PODS, Pod, RAY_PODS),
        services=await listed(SERVICES, Service),
        submitters=await listed(JOBS, Job),
        submitter_pods=await listed(PODS, Pod, SUBMITTER_PODS),
        pod_groups=await reader.listed_if_possible(groups.resource, PodGroup) if groups else None,
    )
    last_known = cast("Any", _LastKnownStatus(job))
    random = Random(0)  # noqa: S311  for the name of a cluster that is never created
    return await Observer(caches, last_known, _no_query, clock, random, settings).observe(key)


def _changes(live: Document | None, wanted: Document) -> tuple[str, ...]:
    if live is None:
        return ()
    return tuple(str(one) for one in differences(live.get("spec") or {}, wanted.get("spec") or {}))


async def _no_query(_: DashboardQuery) -> JobResult | SessionResult:
    raise AssertionError("a preview queries no dashboard")


class _LastKnownStatus:
    """Replaces the poller: answers with the job status in the RayJob's status, and any session."""

    def __init__(self, job: CachedRayJob) -> None:
        status = job.status.job_status
        self._answer = JobInfo(JobStatus(status)) if status in set(JobStatus) - {""} else None

    def latest(
        self, _: Key, query: DashboardQuery, *__: object, **___: object
    ) -> JobResult | SessionResult | None:
        return Session() if query.about_session else self._answer

    def forget(self, _: Key) -> None:
        """Nothing is polled."""
