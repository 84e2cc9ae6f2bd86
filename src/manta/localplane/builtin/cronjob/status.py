"""What a CronJob reports: the last scheduled time, the active Jobs, the last success. Pure."""

from __future__ import annotations

from manta.api.core import ObjectReference
from manta.api.resources import JOBS
from manta.api.schedule import ScheduleError
from manta.api.times import format_time
from manta.localplane.builtin.cronjob.plan import Cause
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.cronjob.timing import due, schedule_of
from manta.localplane.builtin.job.verdict import condition
from manta.localplane.builtin.workload_views import CronJobStatus
from manta.reconcile.outcome import Outcome, Result


def next_status(snapshot: CronJobSnapshot, outcome: Outcome) -> CronJobStatus:
    return CronJobStatus(
        active=_active(snapshot, outcome) or None,
        last_schedule_time=_last_schedule_time(snapshot, outcome),
        last_successful_time=_last_successful_time(snapshot),
    )


def _started(outcome: Outcome) -> Result | None:
    return next((one for one in outcome.done if one.action.cause is Cause.START), None)


def _last_schedule_time(snapshot: CronJobSnapshot, outcome: Outcome) -> str | None:
    schedule = schedule_of(snapshot.cron_job)
    if _started(outcome) and not isinstance(schedule, ScheduleError):
        scheduled = due(snapshot, schedule)
        if scheduled is not None:
            return format_time(scheduled)
    return snapshot.cron_job.status.last_schedule_time


def _active(snapshot: CronJobSnapshot, outcome: Outcome) -> tuple[ObjectReference, ...]:
    replaced = {one.key for one in outcome.done if one.action.cause is Cause.REPLACE}
    found = [
        _reference(meta.name, meta.namespace, meta.uid, meta.resource_version)
        for meta in (job.metadata for job in snapshot.active)
        if meta.key not in replaced
    ]
    started = _started(outcome)
    if started is not None and started.uid not in {one.uid for one in found}:
        key = started.key
        found.append(_reference(key.name, key.namespace, started.uid, started.resource_version))
    known = {one.uid: one for one in snapshot.cron_job.status.active or ()}
    return tuple(known.get(one.uid, one) for one in found)


def _reference(name: str, namespace: str, uid: str, version: str) -> ObjectReference:
    return ObjectReference(
        api_version=JOBS.api_version,
        kind=JOBS.kind,
        name=name,
        namespace=namespace,
        uid=uid,
        resource_version=version,
    )


def _last_successful_time(snapshot: CronJobSnapshot) -> str | None:
    ends = [
        job.status.completion_time
        for job in snapshot.jobs
        if job.status.completion_time and condition(job, "Complete")
    ]
    last = snapshot.cron_job.status.last_successful_time
    return max((*ends, last) if last else ends, default=None)
