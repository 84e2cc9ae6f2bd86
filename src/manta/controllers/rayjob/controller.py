"""The RayJob controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manta.api.batch import Job
from manta.api.core import Pod, Service
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJobStatus
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, PODS, SERVICES
from manta.api.scheduling import PodGroup
from manta.api.well_known import LABEL_APP_CREATED_BY
from manta.controllers.rayjob import metrics
from manta.controllers.rayjob.conditions import is_worth_writing
from manta.controllers.rayjob.dashboard_client import DashboardClient
from manta.controllers.rayjob.dashboard_query import dashboard_query
from manta.controllers.rayjob.events import CONTROLLER
from manta.controllers.rayjob.metrics import Attempts
from manta.controllers.rayjob.observe import (
    BY_CLUSTER,
    BY_JOB,
    BY_USED_CLUSTER,
    CachedRayJob,
    Caches,
    Observer,
    by_cluster,
    by_job,
    by_used_cluster,
)
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.status import next_status
from manta.controllers.rayjob.status_events import status_events
from manta.manifests.gang import pod_groups
from manta.ray.dashboard import Dashboard
from manta.ray.models import JobResult, SessionResult, Unreachable
from manta.ray.poller import DashboardPoller, PollInterval
from manta.reconcile.actions import Call
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.rules.selection import RAY_PODS, SUBMITTER_PODS
from manta.rules.settings import Settings
from manta.runtime.controller import Watch, mapped_keys, own_key, owner_keys
from manta.runtime.manager import Manager

WORKERS = 64
"""A worker waits for the dashboard when it submits or stops a job; workers are cheap."""

POLL_INTERVAL = PollInterval(fast=1.0, slow=5.0)
CREATED_BY_US = f"{LABEL_APP_CREATED_BY}={names.OPERATOR_NAME}"


class RayJobReconciler(Reconciler[JobSnapshot, RayJobStatus]):
    name = CONTROLLER
    workers = WORKERS

    def __init__(self, manager: Manager, settings: Settings, dashboard: Dashboard) -> None:
        self._caches = _caches(manager, settings)
        self.subjects = self._caches.jobs
        self._dashboard_client = DashboardClient(dashboard, manager.client)
        self._attempts = Attempts()
        self._poller: DashboardPoller[Key, JobResult | SessionResult] = DashboardPoller(
            self._enqueue, POLL_INTERVAL, failed=self._unanswered
        )
        self._observer = Observer(
            self._caches,
            self._poller,
            self._dashboard_client.query_dashboard,
            manager.clock,
            manager.random,
            settings,
        )
        super().__init__(manager)
        manager.add_service("RayJob dashboard polling", self._poller.run)
        manager.on_leadership_lost(self._poller.close)
        if settings.enable_metrics:
            metrics.register(manager.registry, self._caches.jobs, self._attempts)

    def _enqueue(self, key: Key) -> None:
        self.controller.enqueue(key)

    def _unanswered(self, error: Exception) -> Unreachable:
        return Unreachable(self.controller.poll_failed(error))

    def watches(self) -> Sequence[Watch[Any]]:
        caches, owned = self._caches, owner_keys(RAY_JOBS.kind, RAY_JOBS.group)
        groups = caches.pod_groups
        return (
            Watch(caches.jobs, own_key),
            Watch(caches.clusters, owned),
            Watch(caches.clusters, mapped_keys(lambda one: _users_of(caches, one.metadata.key))),
            Watch(caches.services, owned),
            Watch(caches.submitters, owned),
            Watch(caches.submitter_pods, mapped_keys(_submitted_for)),
            Watch(caches.pods, mapped_keys(lambda pod: _jobs_of_head(caches, pod))),
            *((Watch(groups, owned),) if groups is not None else ()),
        )

    async def observe(self, key: Key) -> JobSnapshot | None:
        return await self._observer.observe(key)

    def subject(self, snapshot: JobSnapshot) -> Subject:
        return Subject(RAY_JOBS, snapshot.job.metadata, snapshot.status)

    def plan(self, snapshot: JobSnapshot) -> Step[RayJobStatus]:
        return plan(snapshot)

    async def call(self, snapshot: JobSnapshot, action: Call) -> Mapping[str, Any]:
        query = dashboard_query(snapshot)
        try:
            if action.verb == "stop":
                await self._dashboard_client.stop(query, action.arguments["job_id"])
            else:
                await self._dashboard_client.submit(query, snapshot)
                # No answer from before it counts any longer: it would say that Ray has forgotten the job.
                self._poller.forget(snapshot.job.metadata.key)
        finally:
            self._poller.poll_now(snapshot.job.metadata.key)
        return {}

    def next_status(
        self, snapshot: JobSnapshot, step: Step[RayJobStatus], outcome: Outcome
    ) -> RayJobStatus | None:
        if snapshot.job.metadata.deletion_timestamp is not None:
            return None
        new = next_status(snapshot, step, outcome)
        return new if is_worth_writing(snapshot.status, new) else snapshot.status

    def status_events(
        self, snapshot: JobSnapshot, status: RayJobStatus | None, outcome: Outcome
    ) -> Iterable[Event]:
        del outcome
        return status_events(snapshot, status) if status is not None else ()

    def remember(
        self, snapshot: JobSnapshot, outcome: Outcome, written: RayJobStatus | None
    ) -> None:
        del outcome
        if written is not None:
            self._attempts.note(snapshot, written)


def build(manager: Manager, settings: Settings, dashboard: Dashboard) -> None:
    RayJobReconciler(manager, settings, dashboard)


def _caches(manager: Manager, settings: Settings) -> Caches:
    groups = pod_groups(settings)
    return Caches(
        jobs=manager.informer(RAY_JOBS, CachedRayJob, indexes={BY_USED_CLUSTER: by_used_cluster}),
        clusters=manager.informer(RAY_CLUSTERS, RayCluster),
        pods=manager.informer(PODS, Pod, labels=RAY_PODS, indexes={BY_CLUSTER: by_cluster}),
        services=manager.informer(SERVICES, Service),
        submitters=manager.informer(JOBS, Job, labels=CREATED_BY_US),
        submitter_pods=manager.informer(PODS, Pod, labels=SUBMITTER_PODS, indexes={BY_JOB: by_job}),
        pod_groups=manager.informer(groups.resource, PodGroup) if groups is not None else None,
    )


# ── which RayJobs a change concerns ──────────────────────────────────────────────────────


def _users_of(caches: Caches, cluster: Key) -> Iterable[Key]:
    """The RayJobs that run on this cluster, whether they own or borrow it."""
    return (job.metadata.key for job in caches.jobs.by(BY_USED_CLUSTER, str(cluster)))


def _jobs_of_head(caches: Caches, pod: Pod) -> Iterable[Key]:
    if not by_cluster(pod):
        return ()
    name = pod.metadata.labels.get(names.LABEL_CLUSTER, "")
    return _users_of(caches, Key(pod.metadata.namespace, name))


def _submitted_for(pod: Pod) -> Iterable[Key]:
    name = pod.metadata.labels.get(names.LABEL_ORIGIN_NAME, "")
    return (Key(pod.metadata.namespace, name),) if name else ()
