"""The RayJob controller: what it watches, and its rooms tied together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from manta.api.batch import Job
from manta.api.core import Pod, Service
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, PODS, SERVICES
from manta.api.scheduling import PodGroup
from manta.controllers.rayjob import metrics
from manta.controllers.rayjob.announce import announcements
from manta.controllers.rayjob.asker import Asker
from manta.controllers.rayjob.conditions import differs
from manta.controllers.rayjob.events import CONTROLLER, EVENTS
from manta.controllers.rayjob.inquire import whom_to_ask
from manta.controllers.rayjob.metrics import Attempts
from manta.controllers.rayjob.observe import (
    BY_CLUSTER,
    BY_JOB,
    BY_USED_CLUSTER,
    CachedRayJob,
    Caches,
    Observer,
    cluster_in_use,
    head_of_cluster,
    submits_for,
)
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.status import next_status
from manta.manifests.gang import pod_groups
from manta.ray.dashboard import Dashboard
from manta.ray.models import JobAnswer, SessionAnswer
from manta.ray.watch import DashboardWatch, Pace
from manta.reconcile import events
from manta.reconcile.actions import Call
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import Outcome
from manta.reconcile.perform import KubePerformer
from manta.reconcile.plan import Plan
from manta.reconcile.report import StatusWriter
from manta.rules.selection import RAY_PODS, SUBMITTER_PODS
from manta.rules.settings import Settings
from manta.runtime.cache import Named
from manta.runtime.controller import Controller, Watch, own_key, owner_keys
from manta.runtime.freshness import Owner
from manta.runtime.manager import Manager
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry
from manta.runtime.recorder import ObjectReference, Recorder

WORKERS = 64
"""Rounds may wait for a dashboard when they submit or stop; they are cheap, so there are many."""

PACE = Pace(busy=1.0, calm=5.0)
CREATED_BY_US = f"{names.LABEL_APP_CREATED_BY}={names.OPERATOR_NAME}"


class RayJobRooms:
    def __init__(
        self,
        observer: Observer,
        performer: KubePerformer,
        status: StatusWriter,
        recorder: Recorder,
        asker: Asker,
        watch: DashboardWatch[Key, JobAnswer | SessionAnswer],
        attempts: Attempts,
    ) -> None:
        self.observe = observer.observe
        self._performer = performer
        self._status = status
        self._recorder = recorder
        self._asker = asker
        self._watch = watch
        self._attempts = attempts

    def plan(self, seen: JobSnapshot) -> Plan:
        return plan(seen)

    async def apply(self, seen: JobSnapshot, plan: Plan) -> Outcome:
        async def perform(call: Call) -> Mapping[str, Any]:
            return await self._call(seen, call)

        return await self._performer.apply(_owner(seen), plan, perform)

    async def _call(self, seen: JobSnapshot, call: Call) -> Mapping[str, Any]:
        asked = whom_to_ask(seen)
        try:
            if call.verb == "stop":
                await self._asker.stop(asked, call.arguments["job_id"])
            else:
                await self._asker.submit(asked, seen)
        finally:
            self._watch.ask_now(seen.job.metadata.key)
        return {}

    async def report(self, seen: JobSnapshot, plan: Plan, outcome: Outcome) -> bool:
        meta = seen.job.metadata
        regarding = ObjectReference.to(RAY_JOBS, meta)
        with phase(Phase.EVENTS):
            events.emit(self._recorder, CONTROLLER, regarding, EVENTS, outcome)
        new = next_status(seen, outcome)
        if meta.deletion_timestamp is not None or not differs(seen.status, new):
            return False
        written = await self._status.write(_owner(seen), RAY_JOBS, meta, seen.status, new)
        if written:
            with phase(Phase.EVENTS):
                events.tell(self._recorder, CONTROLLER, regarding, announcements(seen, new))
            self._attempts.note(seen, new)
        return written

    def idle_delay(self, _: JobSnapshot) -> timedelta | None:
        return None


def _owner(seen: JobSnapshot) -> Owner:
    return Owner(CONTROLLER, seen.job.metadata.key)


def build(manager: Manager, settings: Settings, dashboard: Dashboard) -> Controller:
    """Wire the controller into a manager, which then runs it."""
    caches = Caches(
        jobs=manager.informer(RAY_JOBS, CachedRayJob, indexes={BY_USED_CLUSTER: cluster_in_use}),
        clusters=manager.informer(RAY_CLUSTERS, RayCluster),
        pods=manager.informer(PODS, Pod, labels=RAY_PODS, indexes={BY_CLUSTER: head_of_cluster}),
        services=manager.informer(SERVICES, Service),
        submitters=manager.informer(JOBS, Job, labels=CREATED_BY_US),
        submitter_pods=manager.informer(
            PODS, Pod, labels=SUBMITTER_PODS, indexes={BY_JOB: submits_for}
        ),
    )
    if (groups := pod_groups(settings)) is not None:
        informer = manager.informer(groups.resource, PodGroup)
        caches = msgspec.structs.replace(caches, pod_groups=informer)
    asker, attempts = Asker(dashboard, manager.client), Attempts()

    def news_of(key: Key) -> None:
        controller.enqueue(key)

    watch: DashboardWatch[Key, JobAnswer | SessionAnswer] = DashboardWatch(news_of, PACE)
    rooms = RayJobRooms(
        Observer(caches, watch, asker.ask, manager.clock, manager.random, settings),
        KubePerformer(manager.client, manager.freshness),
        StatusWriter(manager.client, manager.freshness),
        manager.recorder,
        asker,
        watch,
        attempts,
    )

    async def run_round(key: Key) -> Done | Retry:
        return await reconcile(rooms, key)

    owned = owner_keys(RAY_JOBS.kind, RAY_JOBS.group)
    watches: tuple[Watch[Any], ...] = (
        Watch(caches.jobs, own_key),
        Watch(caches.clusters, owned),
        Watch(caches.clusters, _each(lambda one: _users_of(caches, one.metadata.key))),
        Watch(caches.services, owned),
        Watch(caches.submitters, owned),
        Watch(caches.submitter_pods, _each(_submitted_for)),
        Watch(caches.pods, _each(lambda pod: _jobs_of_head(caches, pod))),
    )
    if caches.pod_groups is not None:
        watches += (Watch(caches.pod_groups, owned),)
    controller = Controller(CONTROLLER, run_round, watches, workers=WORKERS, subject=caches.jobs)
    manager.add_service("RayJob questions", watch.run)
    manager.at_end_of_term(watch.close)
    if settings.enable_metrics:
        metrics.register(manager.registry, caches.jobs, attempts)
    return controller


# ── whom a change concerns ───────────────────────────────────────────────────────────────


def _each(whom: Callable[[Any], Iterable[Key]]) -> Callable[[Any, Any], tuple[Key, ...]]:
    def keys(old: Named | None, new: Named | None) -> tuple[Key, ...]:
        return tuple(
            dict.fromkeys(key for one in (old, new) if one is not None for key in whom(one))
        )

    return keys


def _users_of(caches: Caches, cluster: Key) -> Iterable[Key]:
    """The RayJobs that run on this cluster, whether they own or borrow it."""
    return (job.metadata.key for job in caches.jobs.by(BY_USED_CLUSTER, str(cluster)))


def _jobs_of_head(caches: Caches, pod: Pod) -> Iterable[Key]:
    if not head_of_cluster(pod):
        return ()
    name = pod.metadata.labels.get(names.LABEL_CLUSTER, "")
    return _users_of(caches, Key(pod.metadata.namespace, name))


def _submitted_for(pod: Pod) -> Iterable[Key]:
    name = pod.metadata.labels.get(names.LABEL_ORIGIN_NAME, "")
    return (Key(pod.metadata.namespace, name),) if name else ()
