"""The Events of the CronJob controller: one line per cause."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.schedule import ScheduleError
from manta.localplane.builtin.cronjob.plan import blocked
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.cronjob.timing import schedule_of
from manta.localplane.builtin.job.verdict import condition, is_finished
from manta.reconcile.events import Event


def status_events(snapshot: CronJobSnapshot) -> Iterator[Event]:
    """Why no Job is started, and which Jobs have ended."""
    problem = schedule_of(snapshot.cron_job)
    if isinstance(problem, ScheduleError):
        yield Event("Warning", "InvalidSchedule", "InvalidSchedule", str(problem))
    if blocked(snapshot):
        note = (
            "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        yield Event("Normal", "JobAlreadyActive", "JobAlreadyActive", note)
    active = {one.uid for one in snapshot.cron_job.status.active or ()}
    for job in snapshot.jobs:
        if job.metadata.uid in active and is_finished(job):
            how = "Failed" if condition(job, "Failed") else "Complete"
            note = f"Saw completed job: {job.metadata.name}, condition: {how}"
            yield Event("Normal", "SawCompletedJob", "SawCompletedJob", note)
