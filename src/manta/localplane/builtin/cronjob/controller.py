"""The CronJob controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CRON_JOBS, JOBS
from manta.localplane.builtin.cronjob.events import status_events
from manta.localplane.builtin.cronjob.plan import plan
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.cronjob.status import next_status
from manta.localplane.builtin.views import Job
from manta.localplane.builtin.workload_views import CronJob, CronJobStatus
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key, owner_keys
from manta.runtime.index import by_controller


class CronJobController(Reconciler[CronJobSnapshot, CronJobStatus]):
    name = "cronjob-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        self._cron_jobs = self.manager.informer(CRON_JOBS, CronJob)
        self._jobs = self.manager.informer(JOBS, Job, indexes={"controller": by_controller})
        owned = owner_keys(CRON_JOBS.kind, CRON_JOBS.group)
        return Watch(self._cron_jobs, own_key), Watch(self._jobs, owned)

    async def observe(self, key: Key) -> CronJobSnapshot | None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = self._jobs.by("controller", cron_job.metadata.uid)
        return CronJobSnapshot(cron_job, jobs, self.manager.clock.now())

    def plan(self, snapshot: CronJobSnapshot) -> Step[CronJobStatus]:
        return Step(plan(snapshot))

    def subject(self, snapshot: CronJobSnapshot) -> Subject:
        return Subject(CRON_JOBS, snapshot.cron_job.metadata, snapshot.cron_job.status)

    def next_status(self, snapshot: CronJobSnapshot, _: object, outcome: Outcome) -> CronJobStatus:
        return next_status(snapshot, outcome)

    def status_events(self, snapshot: CronJobSnapshot, _: object, __: object) -> Iterable[Event]:
        return status_events(snapshot)
