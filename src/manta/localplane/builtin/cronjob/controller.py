"""The CronJob controller tied to the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import CRON_JOBS, JOBS, Resource
from manta.api.schedule import ScheduleError
from manta.localplane.builtin.cronjob.events import EVENTS
from manta.localplane.builtin.cronjob.plan import blocked, plan
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.cronjob.status import next_status
from manta.localplane.builtin.cronjob.timing import schedule_of
from manta.localplane.builtin.job.verdict import condition, is_finished
from manta.localplane.builtin.owned_pods import controller_uid
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Job
from manta.localplane.builtin.workload_views import CronJob
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key, owner_keys


class CronJobController(Builtin[CronJobSnapshot]):
    name = "cronjob-controller"
    events = EVENTS

    def watches(self) -> Sequence[Watch[Any]]:
        self._cron_jobs = self.manager.informer(CRON_JOBS, CronJob)
        self._jobs = self.manager.informer(JOBS, Job, indexes={"controller": controller_uid})
        owned = owner_keys(CRON_JOBS.kind, CRON_JOBS.group)
        return Watch(self._cron_jobs, own_key), Watch(self._jobs, owned)

    async def observe(self, key: Key) -> CronJobSnapshot | None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = self._jobs.by("controller", cron_job.metadata.uid)
        return CronJobSnapshot(cron_job, jobs, self.manager.clock.now())

    def plan(self, seen: CronJobSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: CronJobSnapshot) -> tuple[Resource, ObjectMeta]:
        return CRON_JOBS, seen.cron_job.metadata

    def statuses(self, seen: CronJobSnapshot, outcome: Outcome) -> tuple[View, View]:
        return seen.cron_job.status, next_status(seen, outcome)

    async def report(self, seen: CronJobSnapshot, plan: Plan, outcome: Outcome) -> bool:
        changed = await super().report(seen, plan, outcome)
        subject = self.subject(seen)
        problem = schedule_of(seen.cron_job)
        if isinstance(problem, ScheduleError):
            self.tell(subject, "Warning", "InvalidSchedule", str(problem))
        if blocked(seen):
            note = (
                "Not starting job because prior execution is running and concurrency policy is "
                "Forbid"
            )
            self.tell(subject, "Normal", "JobAlreadyActive", note)
        if changed:
            self._record_ends(seen)
        return changed

    def _record_ends(self, seen: CronJobSnapshot) -> None:
        """A Job that the status still calls active has finished."""
        active = {one.uid for one in seen.cron_job.status.active or ()}
        for job in seen.jobs:
            if job.metadata.uid in active and is_finished(job):
                how = "Failed" if condition(job, "Failed") else "Complete"
                note = f"Saw completed job: {job.metadata.name}, condition: {how}"
                self.tell(self.subject(seen), "Normal", "SawCompletedJob", note)
