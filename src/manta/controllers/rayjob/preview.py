"""What the operator would do about a RayJob now, without doing it: for `manta plan`.

The same snapshot and stages as in a real round, on objects that are read once from the server. No
dashboard is asked: what Ray said last is read from the status. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
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
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, PODS, SERVICES
from manta.api.scheduling import PodGroup
from manta.api.times import format_time, parse_time
from manta.controllers.rayjob.inquire import Question
from manta.controllers.rayjob.observe import (
    BY_CLUSTER,
    BY_JOB,
    CachedRayJob,
    Caches,
    Observer,
    head_of_cluster,
    submits_for,
)
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.status import next_status
from manta.kube.client import Client
from manta.manifests.gang import pod_groups
from manta.ray.models import JobAnswer, JobInfo, JobState, Session, SessionAnswer
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.preview import Preview
from manta.reconcile.rehearsal import Document, Indexes, Reader, first_plan, live_and_wanted
from manta.rules.differences import differences
from manta.rules.job_deletion import deletions
from manta.rules.selection import RAY_PODS, SUBMITTER_PODS
from manta.rules.settings import Settings
from manta.runtime.clock import Clock

_INDEXES: Indexes = {
    BY_CLUSTER: head_of_cluster,
    BY_JOB: submits_for,
}
_WITH_A_CLUSTER = (Stage.INITIALIZING, Stage.WAITING, Stage.RUNNING)


class Effect(StrEnum):
    NOTHING = "nothing changes"
    REFUSED = "nothing is done: the spec cannot be carried out"
    BEGINS = "an attempt begins, on a cluster of its own"
    BORROWS = "an attempt begins, on a cluster that is there"
    RESTS = "it is suspended: nothing is made until spec.suspend is false"
    GOES_ON = "the attempt goes on"
    SUSPENDED = "the job is stopped, and its cluster and submitter are given back"
    RETRIED = "the attempt has failed: its cluster goes, and another one begins"
    OVER = "it is over; only deletions are left"
    DELETED = "the job is stopped, and everything of it goes"


async def preview(
    client: Client,
    settings: Settings,
    clock: Clock,
    key: Key,
    manifest: Mapping[str, Any] | None = None,
) -> Preview | None:
    """Of the live object, or of a manifest laid over it. None: neither is there, or not ours."""
    live, wanted = await live_and_wanted(client, RAY_JOBS, key, manifest)
    seen = None if wanted is None else await _read_world(client, settings, clock, key, wanted)
    if wanted is None or seen is None:
        return None
    return foresee(seen, _changes(live, wanted))


def foresee(seen: JobSnapshot, changes: tuple[str, ...] = ()) -> Preview:
    now, chosen = first_plan(seen, plan, _after_status)
    violations = tuple(str(one) for one in seen.violations)
    return Preview(_effect(now), chosen, violations, changes, tuple(_remarks(seen, changes)))


def _after_status(seen: JobSnapshot) -> JobSnapshot | None:
    new = next_status(seen, UNTRIED)
    if new == seen.status:
        return None
    return replace(seen, job=msgspec.structs.replace(seen.job, status=new))


def _effect(seen: JobSnapshot) -> Effect:
    if seen.job.metadata.deletion_timestamp is not None:
        return Effect.DELETED
    match Stage(next_status(seen, UNTRIED).job_deployment_status):
        case Stage.VALIDATION_FAILED:
            return Effect.REFUSED
        case Stage.SUSPENDING:
            return Effect.SUSPENDED
        case Stage.SUSPENDED:
            return Effect.RESTS
        case Stage.RETRYING:
            return Effect.RETRIED
        case Stage.COMPLETE | Stage.FAILED:
            return Effect.OVER
        case Stage.INITIALIZING if seen.cluster is None:
            return Effect.BORROWS if seen.borrows_cluster else Effect.BEGINS
        case _:
            return Effect.GOES_ON


def _remarks(seen: JobSnapshot, changes: tuple[str, ...]) -> Iterator[str]:
    if seen.stage in _WITH_A_CLUSTER and any("rayClusterSpec" in one for one in changes):
        yield "the cluster of an attempt that has begun keeps its spec; the next attempt gets this one"
    if seen.stage in (Stage.COMPLETE, Stage.FAILED) and changes:
        yield "a RayJob that is over does not run again: make a new one"
    for one in deletions(seen.job, seen.settings):
        if one.at > seen.now:
            yield f"{one.policy} at {format_time(one.at)}: {one.why}"
    yield from _deadlines(seen)


def _deadlines(seen: JobSnapshot) -> Iterator[str]:
    limit, start = seen.spec.active_deadline_seconds, seen.status.start_time
    if limit is not None and start and seen.stage in _WITH_A_CLUSTER:
        at = parse_time(start) + timedelta(seconds=limit)
        yield f"activeDeadlineSeconds stops it at {format_time(at)}"


# ── reading once ─────────────────────────────────────────────────────────────────────────


async def _read_world(
    client: Client, settings: Settings, clock: Clock, key: Key, wanted: Document
) -> JobSnapshot | None:
    job = msgspec.json.decode(msgspec.json.encode(_begun(wanted)), type=CachedRayJob)

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
    said = cast("Any", _SaidBefore(job))
    chance = Random(0)  # noqa: S311  a name of a cluster that is never made
    return await Observer(caches, said, None, clock, chance, settings).observe(key)


def _begun(wanted: Document) -> Document:
    """With our finalizer, which is all that a first round would add."""
    meta = dict(wanted["metadata"])
    finalizers = meta.get("finalizers", ())
    if "deletionTimestamp" not in meta and names.FINALIZER_RAY_JOB not in finalizers:
        meta["finalizers"] = [*finalizers, names.FINALIZER_RAY_JOB]
    return {**wanted, "metadata": meta}


def _changes(live: Document | None, wanted: Document) -> tuple[str, ...]:
    if live is None:
        return ()
    return tuple(str(one) for one in differences(live.get("spec") or {}, wanted.get("spec") or {}))


class _SaidBefore:
    """In place of the dashboards: what the status says that Ray said, and a head that is any one."""

    def __init__(self, job: CachedRayJob) -> None:
        status = job.status.job_status
        self._answer = JobInfo(JobState(status)) if status in set(JobState) - {""} else None

    def answer(
        self, _: Key, asked: Question, *__: object, **___: object
    ) -> JobAnswer | SessionAnswer | None:
        return Session() if asked.about_session else self._answer

    def forget(self, _: Key) -> None:
        """Nothing is asked, so nothing is kept."""
