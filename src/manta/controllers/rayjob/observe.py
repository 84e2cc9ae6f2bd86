"""Reads all that a round of a RayJob may know: the caches, and the dashboard's latest answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

import msgspec

from manta.api.batch import Job
from manta.api.core import Pod, Service
from manta.api.meta import Key, ObjectMeta, View
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob, RayJobSpec, RayJobStatus
from manta.api.scheduling import PodGroup
from manta.controllers.rayjob.inquire import expects_change, question
from manta.controllers.rayjob.snapshot import (
    Answer,
    AtSession,
    JobSnapshot,
    NotAsked,
    Silent,
    Told,
    Unknown,
)
from manta.ray.models import JobAnswer, JobInfo, NoSuchJob, Session, SessionAnswer, Unreachable
from manta.ray.watch import DashboardWatch
from manta.rules.runtime_env import parse_runtime_env
from manta.rules.settings import Settings
from manta.rules.text_cache import LARGE_TEXT
from manta.rules.traits import head_service_name
from manta.rules.validation.violation import Violation
from manta.rules.validation.whole_job import job_violations
from manta.runtime.cache import Named
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.offload import parse_ahead

T = TypeVar("T", bound=Named)

BY_CLUSTER = "by-cluster"
BY_JOB = "by-submitter-of"
BY_USED_CLUSTER = "by-used-cluster"


class CachedRayJob(View, frozen=True, kw_only=True):
    """A RayJob whose spec stays as it was written, so that its cluster gets all of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: RayJobStatus = RayJobStatus()


class _OnlyClusterSpec(View, frozen=True, kw_only=True):
    ray_cluster_spec: dict[str, Any] | None = None


def head_of_cluster(pod: Pod) -> tuple[str, ...]:
    """The index of head Pods by the cluster that they belong to."""
    labels = pod.metadata.labels
    if labels.get(names.LABEL_NODE_TYPE) != names.NODE_HEAD:
        return ()
    return (f"{pod.metadata.namespace}/{labels.get(names.LABEL_CLUSTER, '')}",)


def cluster_in_use(job: CachedRayJob) -> tuple[str, ...]:
    """The index of RayJobs by the cluster that they run on, their own or a borrowed one."""
    name = job.status.ray_cluster_name
    return (f"{job.metadata.namespace}/{name}",) if name else ()


def submits_for(pod: Pod) -> tuple[str, ...]:
    """The index of submitter Pods by their RayJob."""
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
    """Only with a gang scheduler that is told by them."""


class Observer:
    def __init__(
        self,
        caches: Caches,
        watch: DashboardWatch[Key, JobAnswer | SessionAnswer],
        ask: Any,
        clock: Clock,
        random: Random,
        settings: Settings,
    ) -> None:
        self._caches = caches
        self._watch = watch
        self._ask = ask
        self._clock = clock
        self._random = random
        self._settings = settings

    async def observe(self, key: Key) -> JobSnapshot | None:
        cached = self._caches.jobs.get(key)
        spec = msgspec.json.decode(cached.spec, type=RayJobSpec) if cached else None
        if cached is None or spec is None or _is_managed_elsewhere(spec):
            self._watch.forget(key)
            return None
        await parse_ahead(parse_runtime_env, spec.runtime_env_yaml, LARGE_TEXT)
        seen = self._world(cached, spec)
        return replace(seen, answer=self._answer(key, seen))

    def _world(self, cached: CachedRayJob, spec: RayJobSpec) -> JobSnapshot:
        job = RayJob(metadata=cached.metadata, spec=spec, status=cached.status)
        namespace, name = job.metadata.key
        cluster = self._caches.clusters.get(Key(namespace, job.status.ray_cluster_name))
        runtime_env = parse_runtime_env(spec.runtime_env_yaml)
        return JobSnapshot(
            job=job,
            settings=self._settings,
            now=self._clock.now(),
            seed=self._random.getrandbits(48),
            violations=job_violations(job, runtime_env, self._settings),
            cluster=cluster,
            cluster_spec=None if cluster else _raw_cluster_spec(cached.spec),
            runtime_env=None if isinstance(runtime_env, Violation) else runtime_env,
            head_pod=self._head_pod(cluster),
            cluster_head_service=self._head_service(cluster),
            job_head_service=self._caches.services.get(Key(namespace, f"{name}-head-svc")),
            submitter=self._submitter(job),
            pod_group=self._pod_group(job),
            submitter_pods=self._caches.submitter_pods.by(BY_JOB, str(job.metadata.key)),
        )

    def _head_pod(self, cluster: RayCluster | None) -> Pod | None:
        if cluster is None:
            return None
        found = self._caches.pods.by(BY_CLUSTER, str(cluster.metadata.key))
        alive = [pod for pod in found if pod.metadata.deletion_timestamp is None]
        return next(iter(alive or found), None)

    def _head_service(self, cluster: RayCluster | None) -> Service | None:
        if cluster is None:
            return None
        return self._caches.services.get(
            Key(cluster.metadata.namespace, head_service_name(cluster))
        )

    def _pod_group(self, job: RayJob) -> PodGroup | None:
        groups = self._caches.pod_groups
        key = Key(job.metadata.namespace, f"ray-{job.metadata.name}-pg")
        return _owned(job, groups.get(key) if groups is not None else None)

    def _submitter(self, job: RayJob) -> Job | None:
        return _owned(job, self._caches.submitters.get(job.metadata.key))

    def _answer(self, key: Key, seen: JobSnapshot) -> Answer:
        asked = question(seen)
        if asked is None:
            self._watch.forget(key)
            return NotAsked()

        async def ask() -> JobAnswer | SessionAnswer:
            answer: JobAnswer | SessionAnswer = await self._ask(asked)
            return answer

        return translate(self._watch.answer(key, asked, ask, expecting=expects_change(seen)))


def _owned(job: RayJob, found: T | None) -> T | None:
    """What bears our name and belongs to somebody else is as good as not there."""
    owner = found.metadata.controller if found is not None else None
    return found if owner is not None and owner.uid == job.metadata.uid else None


def _is_managed_elsewhere(spec: RayJobSpec) -> bool:
    return bool(spec.managed_by) and spec.managed_by != names.MANAGED_BY_OPERATOR


def translate(answer: JobAnswer | SessionAnswer | None) -> Answer:
    """From what a dashboard says to what a stage reads."""
    match answer:
        case None:
            return NotAsked()
        case NoSuchJob():
            return Unknown()
        case Unreachable(why=why):
            return Silent(why)
        case Session(session_name=name):
            return AtSession(name)
        case JobInfo():
            return Told(
                str(answer.status),
                answer.message or "",
                _moment(answer.start_time),
                _moment(answer.end_time),
            )


def _moment(milliseconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None


def _raw_cluster_spec(spec: msgspec.Raw) -> dict[str, Any] | None:
    return msgspec.json.decode(spec, type=_OnlyClusterSpec).ray_cluster_spec
