"""The controller that suspends idle RayClusters: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from manta.api.core import Pod, Service
from manta.api.meta import Key
from manta.api.ray.cluster import ClusterConditionType, RayCluster, RayClusterStatus
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS, SERVICES
from manta.controllers.idlesuspend.events import CONTROLLER
from manta.controllers.idlesuspend.metrics import HoursCounter
from manta.controllers.idlesuspend.observe import Observer, concerns
from manta.controllers.idlesuspend.plan import plan
from manta.controllers.idlesuspend.snapshot import IdleSnapshot
from manta.controllers.idlesuspend.status import next_status
from manta.ray.dashboard import Dashboard
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.rules.selection import BY_CLUSTER, RAY_PODS, by_cluster
from manta.rules.settings import Settings
from manta.runtime.controller import Watch, mapped_keys
from manta.runtime.failures import FailureCondition
from manta.runtime.manager import Manager

WORKERS: Final = 64
"""A worker waits for a dashboard; workers are cheap."""


class IdleSuspendReconciler(Reconciler[IdleSnapshot, RayClusterStatus]):
    name = CONTROLLER
    workers = WORKERS
    failure_condition = FailureCondition(ClusterConditionType.IDLE, "Unknown")
    """`ReconcileError` of a RayCluster belongs to the controller that runs it."""

    def __init__(self, manager: Manager, settings: Settings, dashboard: Dashboard) -> None:
        self._settings = settings
        self.subjects = self._clusters = manager.informer(RAY_CLUSTERS, RayCluster)
        self._observer = Observer(
            self._clusters,
            manager.informer(PODS, Pod, labels=RAY_PODS, indexes={BY_CLUSTER: by_cluster}),
            manager.informer(SERVICES, Service),
            dashboard,
            manager.client,
            manager.clock,
            settings,
        )
        super().__init__(manager)
        manager.on_leadership_lost(self._observer.forget_answers)
        self._hours = HoursCounter(manager.registry, manager.clock)
        manager.on_leadership_lost(self._hours.forget_all)

    def watches(self) -> Sequence[Watch[Any]]:
        """Only RayClusters, and of those only the ones with a limit: the status of a RayCluster changes with
        its head."""
        return (Watch(self._clusters, mapped_keys(self._concerned)),)

    def _concerned(self, cluster: RayCluster) -> Iterable[Key]:
        return (cluster.metadata.key,) if concerns(cluster, self._settings) else ()

    async def observe(self, key: Key) -> IdleSnapshot | None:
        snapshot = await self._observer.observe(key)
        if snapshot is None:
            self._hours.forget(key)
        else:
            self._hours.note(snapshot.cluster)
        return snapshot

    def subject(self, snapshot: IdleSnapshot) -> Subject:
        return Subject(RAY_CLUSTERS, snapshot.cluster.metadata, snapshot.cluster.status)

    def plan(self, snapshot: IdleSnapshot) -> Step[RayClusterStatus]:
        return plan(snapshot)

    def next_status(
        self, snapshot: IdleSnapshot, step: Step[RayClusterStatus], _: Outcome
    ) -> RayClusterStatus | None:
        """No status is written together with a patch, which makes the version in the snapshot old: the next reconcile writes it."""
        if step.plan.stages or snapshot.cluster.metadata.deletion_timestamp is not None:
            return None
        return next_status(snapshot)


def build(manager: Manager, settings: Settings, dashboard: Dashboard) -> None:
    IdleSuspendReconciler(manager, settings, dashboard)
