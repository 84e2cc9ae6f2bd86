"""The RayCluster controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, Final

from manta.api.core import Pod
from manta.api.meta import Key
from manta.api.ray.cluster import ClusterConditionType, RayCluster, RayClusterStatus
from manta.api.ray.names import LABEL_CLUSTER
from manta.api.ray.resources import RAY_CLUSTERS
from manta.controllers.raycluster import metrics
from manta.controllers.raycluster.caches import Caches, selections
from manta.controllers.raycluster.draining_tasks import DrainingTasks
from manta.controllers.raycluster.events import CONTROLLER, action_events
from manta.controllers.raycluster.facts import all_pods_ready
from manta.controllers.raycluster.lost_nodes import LostNodes
from manta.controllers.raycluster.observe import Observer
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.stale_cache import STALLED_AFTER, StaleCacheCheck
from manta.controllers.raycluster.status import next_status
from manta.controllers.raycluster.status_events import status_events
from manta.controllers.raycluster.status_throttle import status_delay
from manta.controllers.raycluster.unnamed_heads import UnnamedHeads
from manta.ray.dashboard import Dashboard
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.rules.rolling_update import rolling_update
from manta.rules.selection import BY_CLUSTER, by_cluster
from manta.rules.settings import Settings
from manta.rules.traits import protects_head
from manta.runtime.controller import Watch, mapped_keys, own_key, owner_keys
from manta.runtime.manager import Manager

NAME: Final = "raycluster"
WORKERS: Final = 8
PDB_LIST_RETRY: Final = timedelta(seconds=5)
"""When to reconcile a cluster again whose PodDisruptionBudget is not listed yet."""


def _caches(manager: Manager, settings: Settings) -> Caches:
    indexes: dict[str, Any] = {BY_CLUSTER: by_cluster}
    related: dict[str, Any] = {
        name: manager.informer(
            one.resource,
            one.view,
            labels=one.labels,
            indexes=indexes if one.indexed else None,
            on_demand=one.on_demand,
        )
        for name, one in selections(settings).items()
    }
    return Caches(clusters=manager.informer(RAY_CLUSTERS, RayCluster), **related)


def _watches(caches: Caches) -> list[Watch[Any]]:
    children = owner_keys(RAY_CLUSTERS.kind, RAY_CLUSTERS.group)
    others = (getattr(caches, one.name) for one in fields(caches))
    return [
        Watch(caches.clusters, own_key),
        Watch(caches.pods, keys_of_pod, priority=True),
        *(
            Watch(informer, children)
            for informer in others
            if informer not in (None, caches.clusters, caches.pods)
        ),
    ]


def keys_of_pod(old: Pod | None, new: Pod | None) -> tuple[Key, ...]:
    """The RayCluster that the label of a Pod names, before and after, if the change matters."""
    if old is not None and new is not None and is_only_bound(old, new):
        return ()
    return _clusters_of_pod(old, new)


def _cluster_of_pod(pod: Pod) -> tuple[Key, ...]:
    name = pod.metadata.labels.get(LABEL_CLUSTER)
    return (Key(pod.metadata.namespace, name),) if name else ()


_clusters_of_pod = mapped_keys(_cluster_of_pod)


def is_only_bound(old: Pod, new: Pod) -> bool:
    """Whether the scheduler bound the Pod, and nothing else changed. Such a change needs no reconcile: the
    kubelet reports what follows. A Pod that was unschedulable has conditions: then its binding matters."""
    before, after = old.metadata, new.metadata
    return (
        not old.spec.node_name
        and bool(new.spec.node_name)
        and not old.status.conditions
        and old.status.phase == new.status.phase
        and not (new.status.container_statuses or new.status.init_container_statuses)
        and before.deletion_timestamp == after.deletion_timestamp
        and before.labels == after.labels
        and before.annotations == after.annotations
    )


class RayClusterReconciler(Reconciler[ClusterSnapshot, RayClusterStatus]):
    name = NAME
    event_source = CONTROLLER
    workers = WORKERS

    def __init__(
        self, manager: Manager, settings: Settings, dashboard: Dashboard | None = None
    ) -> None:
        self._caches = _caches(manager, settings)
        self.subjects = self._caches.clusters
        self._observer = Observer(self._caches, settings, manager.clock, manager.random)
        self._stale_cache = StaleCacheCheck(self._caches.pods)
        self._lost_nodes = LostNodes(manager.client)
        self._resync = settings.cluster_resync
        self._held_since: dict[Key, datetime] = {}
        """Since when the status of a cluster is held back. A restart may forget it."""
        self._unnamed_heads = UnnamedHeads()
        manager.on_leadership_lost(self._unnamed_heads.forget_all)
        self._tasks: DrainingTasks | None = None
        super().__init__(manager)
        if dashboard is not None:
            services, changed = self._caches.services, self.controller.enqueue
            self._tasks = DrainingTasks(
                dashboard, manager.client, services, settings, changed, self._count
            )
            manager.add_service("tasks of workers that drain", self._tasks.run)
            manager.on_leadership_lost(self._tasks.close)
        if settings.enable_metrics:
            metrics.register(manager.registry, self._caches.clusters)

    def _count(self, error: Exception) -> None:
        self.controller.poll_failed(error)

    def watches(self) -> list[Watch[Any]]:
        return _watches(self._caches)

    async def observe(self, key: Key) -> ClusterSnapshot | None:
        snapshot = self._observer.observe(key)
        if snapshot is None:
            self._held_since.pop(key, None)
            self._unnamed_heads.forget(key)
            if self._tasks is not None:
                self._tasks.forget(key)
        if snapshot is None or snapshot.is_suspended:
            return snapshot
        if await self._stale_cache.refresh(snapshot):
            snapshot = self._observer.observe(key)
        if snapshot is not None and (lost := await self._lost_nodes.of(snapshot)):
            snapshot = replace(snapshot, lost_nodes=lost)
        if snapshot is not None and (name := self._unnamed_heads.of(snapshot)):
            snapshot = replace(snapshot, unnamed_head=name)
        if snapshot is not None and _protects_head(snapshot):
            self._caches.pdbs.activate()
        if snapshot is not None and rolling_update(snapshot.cluster) is not None:
            self._caches.revisions.activate()
            if self._tasks is not None and (left := self._tasks.of(snapshot)):
                snapshot = replace(snapshot, tasks_left=left)
        return snapshot

    def subject(self, snapshot: ClusterSnapshot) -> Subject:
        cluster = snapshot.cluster
        return Subject(RAY_CLUSTERS, cluster.metadata, cluster.status)

    def plan(self, snapshot: ClusterSnapshot) -> Step[RayClusterStatus]:
        return plan(snapshot)

    def action_events(self, outcome: Outcome) -> Iterable[Event]:
        return action_events(outcome)

    def next_status(
        self, snapshot: ClusterSnapshot, step: Step[RayClusterStatus], outcome: Outcome
    ) -> RayClusterStatus | None:
        if snapshot.is_being_deleted:
            return None
        return next_status(snapshot, outcome, step.blocked_by)

    def status_delay(self, snapshot: ClusterSnapshot, new: RayClusterStatus) -> timedelta | None:
        key = snapshot.cluster.metadata.key
        delay = status_delay(snapshot, new, self._held_since.get(key))
        if delay:
            self._held_since.setdefault(key, snapshot.now)
        else:
            self._held_since.pop(key, None)
        return delay

    def status_events(
        self, snapshot: ClusterSnapshot, status: RayClusterStatus | None, _: object
    ) -> Iterable[Event]:
        return status_events(snapshot, status) if status is not None else ()

    def remember(
        self, snapshot: ClusterSnapshot, _: object, written: RayClusterStatus | None
    ) -> None:
        if written is not None:
            self._unnamed_heads.wrote(snapshot.cluster.metadata.key, written)

    def next_wakeup(self, snapshot: ClusterSnapshot, _: object) -> timedelta | None:
        is_unknown = _protects_head(snapshot) and not snapshot.pdbs_listed
        return PDB_LIST_RETRY if is_unknown and not snapshot.is_suspended else None

    def resync_in(self, snapshot: ClusterSnapshot) -> timedelta | None:
        """Spread, so that many clusters never resync at once (C41)."""
        if snapshot.is_suspended:
            return None
        is_settled = all_pods_ready(snapshot) and not snapshot.condition(
            ClusterConditionType.BLOCKED
        )
        interval = self._resync if is_settled else min(self._resync, STALLED_AFTER)
        return interval * (1 + self.manager.random.random() / 10)


def _protects_head(snapshot: ClusterSnapshot) -> bool:
    return protects_head(snapshot.cluster.metadata.annotations)


def build(manager: Manager, settings: Settings, dashboard: Dashboard | None = None) -> None:
    """Without a dashboard, the condition of a rolling update does not count tasks."""
    RayClusterReconciler(manager, settings, dashboard)
