"""The RayCronJob controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.cronjob import RayCronJob, RayCronJobStatus
from manta.api.ray.names import LABEL_CRON_JOB_NAME
from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.controllers.raycronjob import ticks
from manta.controllers.raycronjob.events import CONTROLLER, status_events
from manta.controllers.raycronjob.observe import BY_CONTROLLER, Observer
from manta.controllers.raycronjob.plan import plan
from manta.controllers.raycronjob.snapshot import ChildJob, CronSnapshot
from manta.controllers.raycronjob.status import next_status
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import NOW, Reconciler, Subject
from manta.reconcile.step import Step
from manta.rules.settings import Settings
from manta.runtime.controller import Watch, own_key, owner_keys
from manta.runtime.index import by_controller
from manta.runtime.manager import Manager


class RayCronJobReconciler(Reconciler[CronSnapshot, RayCronJobStatus]):
    name = CONTROLLER
    workers = 8

    def __init__(self, manager: Manager, settings: Settings) -> None:
        self.subjects = self._crons = manager.informer(RAY_CRON_JOBS, RayCronJob)
        self._jobs = manager.informer(
            RAY_JOBS, ChildJob, labels=LABEL_CRON_JOB_NAME, indexes={BY_CONTROLLER: by_controller}
        )
        self._observer = Observer(self._crons, self._jobs, manager.clock, settings)
        self._written_at: dict[Key, str] = {}
        """The version of each RayCronJob at which its status was written last."""
        super().__init__(manager)

    def watches(self) -> Sequence[Watch[Any]]:
        owned = owner_keys(RAY_CRON_JOBS.kind, RAY_CRON_JOBS.group)
        return Watch(self._crons, own_key), Watch(self._jobs, owned)

    async def observe(self, key: Key) -> CronSnapshot | None:
        snapshot = self._observer.observe(key)
        if snapshot is None:
            self._written_at.pop(key, None)
        return snapshot

    def subject(self, snapshot: CronSnapshot) -> Subject:
        return Subject(RAY_CRON_JOBS, snapshot.cron.metadata, snapshot.cron.status)

    def plan(self, snapshot: CronSnapshot) -> Step[RayCronJobStatus]:
        return plan(snapshot)

    def next_status(self, snapshot: CronSnapshot, _: object, outcome: Outcome) -> RayCronJobStatus:
        return next_status(snapshot, outcome)

    def status_delay(self, snapshot: CronSnapshot, new: RayCronJobStatus) -> timedelta | None:
        """Never for conditions that this version of the object did not take: KubeRay's CRD prunes them."""
        meta, old = snapshot.cron.metadata, snapshot.cron.status
        if self._written_at.get(meta.key) == meta.resource_version:
            old = msgspec.structs.replace(old, conditions=new.conditions)
        return NOW if new != old else None

    def remember(self, snapshot: CronSnapshot, _: object, written: RayCronJobStatus | None) -> None:
        if written is not None:
            self._written_at[snapshot.cron.metadata.key] = snapshot.cron.metadata.resource_version

    def status_events(self, snapshot: CronSnapshot, _: object, __: object) -> Iterable[Event]:
        return status_events(snapshot)

    def next_wakeup(self, snapshot: CronSnapshot, _: object) -> timedelta | None:
        return ticks.next_wakeup(snapshot)


def build(manager: Manager, settings: Settings) -> None:
    RayCronJobReconciler(manager, settings)
