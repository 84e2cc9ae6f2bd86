"""Builds the snapshot of a RayJob from the caches and the dashboard's latest answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

import msgspec

from manta.api.batch import Job
from manta.api.core import Pod, Service
from manta.api.meta import Key, Object, View
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob, RayJobSpec, RayJobStatus
from manta.api.scheduling import PodGroup
from manta.controllers.rayjob.dashboard_query import DashboardQuery, due_query, expects_change
from manta.controllers.rayjob.snapshot import (
    DashboardAnswer,
    DashboardReply,
    DashboardUnreachable,
    JobNotFound,
    JobSnapshot,
    NotQueried,
    SessionReply,
)
from manta.ray.models import JobInfo, JobResult, NoSuchJob, Session, SessionResult, Unreachable
from manta.ray.poller import DashboardPoller
from manta.rules.runtime_env import parse_runtime_env
from manta.rules.settings import Settings
from manta.rules.text_cache import LARGE_TEXT_CHARACTERS
from manta.rules.traits import head_service_name, is_managed_elsewhere
from manta.rules.validation.violation import Violation
from manta.rules.validation.whole_job import job_violations
from manta.runtime.cache import Named
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.offload import parse_ahead

T = TypeVar("T", bound=Named)

BY_CLUSTER = "by-cluster"
BY_JOB = "by-job"
BY_USED_CLUSTER = "by-used-cluster"


class CachedRayJob(Object, frozen=True, kw_only=True):
    """A RayJob with its spec as the user wrote it, so that unknown fields reach the cluster."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: RayJobStatus = RayJobStatus()


class _OnlyClusterSpec(View, frozen=True, kw_only=True):
    ray_cluster_spec: dict[str, Any] | None = None


def by_cluster(pod: Pod) -> tuple[str, ...]:
    """Index head Pods by their cluster."""
    labels = pod.metadata.labels
    if labels.get(names.LABEL_NODE_TYPE) != names.NODE_HEAD:
        return ()
    return (f"{pod.metadata.namespace}/{labels.get(names.LABEL_CLUSTER, '')}",)


def by_used_cluster(job: CachedRayJob) -> tuple[str, ...]:
    """Index RayJobs by the cluster that they run on, created or selected."""
    name = job.status.ray_cluster_name
    return (f"{job.metadata.namespace}/{name}",) if name else ()


def by_job(pod: Pod) -> tuple[str, ...]:
    """Index submitter Pods by their RayJob."""
    name = pod.metadata.labels.get(names.LABEL_ORIGIN_NAME, "")
    return (f"{pod.metadata.namespace}/{name}",)


class Caches(msgspec.Struct, frozen=True):
    jobs: Informer[CachedRayJob]
    clusters: Informer[RayCluster]
    pods: Informer[Pod]
    services: Informer[Service]
    submitters: Informer[Job]
    submitter_pods: Informer[Pod]
    pod_groups: Informer[PodGroup] | None = None
    """Only with a gang scheduler that uses PodGroups."""


@dataclass(frozen=True, slots=True)
class Observer:
    caches: Caches
    poller: DashboardPoller[Key, JobResult | SessionResult]
    query_dashboard: Callable[[DashboardQuery], Awaitable[JobResult | SessionResult]]
    clock: Clock
    random: Random
    settings: Settings

    async def observe(self, key: Key) -> JobSnapshot | None:
        """The snapshot; None if the object is gone or another operator manages it."""
        cached = self.caches.jobs.get(key)
        spec = msgspec.json.decode(cached.spec, type=RayJobSpec) if cached else None
        if cached is None or spec is None or is_managed_elsewhere(spec.managed_by):
            self.poller.forget(key)
            return None
        await parse_ahead(parse_runtime_env, spec.runtime_env_yaml, LARGE_TEXT_CHARACTERS)
        snapshot = self._snapshot(cached, spec)
        return replace(snapshot, answer=self._answer(key, snapshot))

    def _snapshot(self, cached: CachedRayJob, spec: RayJobSpec) -> JobSnapshot:
        job = RayJob(metadata=cached.metadata, spec=spec, status=cached.status)
        namespace, name = job.metadata.key
        cluster = self.caches.clusters.get(Key(namespace, job.status.ray_cluster_name))
        runtime_env = parse_runtime_env(spec.runtime_env_yaml)
        return JobSnapshot(
            job=job,
            settings=self.settings,
            now=self.clock.now(),
            seed=self.random.getrandbits(48),
            violations=job_violations(job, runtime_env, self.settings),
            cluster=cluster,
            cluster_spec=None if cluster else _raw_cluster_spec(cached.spec),
            runtime_env=None if isinstance(runtime_env, Violation) else runtime_env,
            head_pod=self._head_pod(cluster),
            cluster_head_service=self._head_service(cluster),
            job_head_service=self.caches.services.get(Key(namespace, f"{name}-head-svc")),
            submitter=_owned(job, self.caches.submitters.get(job.metadata.key)),
            pod_group=self._pod_group(job),
            submitter_pods=self.caches.submitter_pods.by(BY_JOB, str(job.metadata.key)),
        )

    def _head_pod(self, cluster: RayCluster | None) -> Pod | None:
        if cluster is None:
            return None
        found = self.caches.pods.by(BY_CLUSTER, str(cluster.metadata.key))
        alive = [pod for pod in found if pod.metadata.deletion_timestamp is None]
        return next(iter(alive or found), None)

    def _head_service(self, cluster: RayCluster | None) -> Service | None:
        if cluster is None:
            return None
        key = Key(cluster.metadata.namespace, head_service_name(cluster))
        return self.caches.services.get(key)

    def _pod_group(self, job: RayJob) -> PodGroup | None:
        groups = self.caches.pod_groups
        key = Key(job.metadata.namespace, f"ray-{job.metadata.name}-pg")
        return _owned(job, groups.get(key) if groups is not None else None)

    def _answer(self, key: Key, snapshot: JobSnapshot) -> DashboardAnswer:
        query = due_query(snapshot)
        if query is None:
            self.poller.forget(key)
            return NotQueried()

        async def fetch() -> JobResult | SessionResult:
            return await self.query_dashboard(query)

        expecting = expects_change(snapshot)
        return to_answer(self.poller.latest(key, query, fetch, expecting_change=expecting))


def _owned(job: RayJob, found: T | None) -> T | None:
    """The object; None if another object controls it."""
    owned = found is not None and found.metadata.is_controlled_by(job.metadata.uid)
    return found if owned else None


def to_answer(answer: JobResult | SessionResult | None) -> DashboardAnswer:
    """The result of a query as the planners read it."""
    match answer:
        case None:
            return NotQueried()
        case NoSuchJob():
            return JobNotFound()
        case Unreachable(why=why):
            return DashboardUnreachable(why)
        case Session(session_name=name):
            return SessionReply(name)
        case JobInfo():
            return DashboardReply(
                str(answer.status),
                answer.message or "",
                _from_millis(answer.start_time),
                _from_millis(answer.end_time),
                answer.first_failure,
            )


def _from_millis(milliseconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None


def _raw_cluster_spec(spec: msgspec.Raw) -> dict[str, Any] | None:
    return msgspec.json.decode(spec, type=_OnlyClusterSpec).ray_cluster_spec
