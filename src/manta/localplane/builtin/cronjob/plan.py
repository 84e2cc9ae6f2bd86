"""What to do about a CronJob: start the Job that is due, replace active ones, delete old ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from manta.api.resources import CRON_JOBS, JOBS
from manta.api.schedule import Schedule, ScheduleError
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.cronjob.timing import (
    LONGEST_SLEEP,
    due,
    in_zone,
    job_name,
    next_time,
    schedule_of,
)
from manta.localplane.builtin.job.verdict import condition
from manta.localplane.builtin.ownership import controlled_by
from manta.localplane.builtin.views import Job
from manta.localplane.builtin.workload_views import CronJob
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING, Plan, Wait, do

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class Cause(StrEnum):
    START = "a scheduled time has come"
    REPLACE = "the concurrency policy replaces the Job that is active"
    HISTORY = "more finished Jobs are kept than wanted"


def plan(seen: CronJobSnapshot) -> Plan:
    cron_job = seen.cron_job
    if cron_job.metadata.deletion_timestamp:
        return NOTHING
    history = _plan_history(seen)
    schedule = schedule_of(cron_job)
    if cron_job.spec.suspend or isinstance(schedule, ScheduleError):
        return history
    scheduled = due(seen, schedule)
    start = NOTHING if scheduled is None else _start(seen, scheduled)
    return history.then(start).then(_until_next(seen, schedule))


def blocked(seen: CronJobSnapshot) -> bool:
    """A time has come, and an active Job forbids another one."""
    schedule = schedule_of(seen.cron_job)
    if isinstance(schedule, ScheduleError) or seen.cron_job.spec.suspend:
        return False
    forbids = seen.cron_job.spec.concurrency_policy == "Forbid"
    return forbids and bool(seen.active) and due(seen, schedule) is not None


def _start(seen: CronJobSnapshot, scheduled: datetime) -> Plan:
    if blocked(seen):
        return Plan(notes=("an active Job forbids another one",))
    replaced = NOTHING
    name = job_name(seen.cron_job, scheduled)
    if seen.cron_job.spec.concurrency_policy == "Replace":
        replaced = _delete((job for job in seen.active if job.metadata.name != name), Cause.REPLACE)
    return replaced.then(do(Create(JOBS, _job(seen.cron_job, scheduled), Cause.START)))


def _until_next(seen: CronJobSnapshot, schedule: Schedule) -> Plan:
    upcoming = next_time(seen, schedule)
    if upcoming is None:
        return NOTHING
    left = max(upcoming - seen.now, timedelta(0))
    return Plan(wait=Wait("until the next scheduled time", min(left, LONGEST_SLEEP)))


def _plan_history(seen: CronJobSnapshot) -> Plan:
    """The newest finished Jobs stay, counted apart by how they ended."""
    spec = seen.cron_job.spec
    failed = [job for job in seen.finished if condition(job, "Failed")]
    complete = [job for job in seen.finished if not condition(job, "Failed")]
    surplus = [
        *_beyond(complete, spec.successful_jobs_history_limit),
        *_beyond(failed, spec.failed_jobs_history_limit),
    ]
    return _delete(surplus, Cause.HISTORY)


def _beyond(jobs: list[Job], limit: int | None) -> list[Job]:
    return [] if limit is None else jobs[: max(0, len(jobs) - limit)]


def _delete(jobs: Iterable[Job], cause: Cause) -> Plan:
    staying = (job.metadata for job in jobs if job.metadata.deletion_timestamp is None)
    return do(*(Delete(JOBS, meta.key, meta.uid, cause) for meta in staying))


def _job(cron_job: CronJob, scheduled: datetime) -> dict[str, Any]:
    template = cron_job.spec.job_template
    meta = template.get("metadata") or {}
    stamp = {SCHEDULED_AT: in_zone(cron_job, scheduled)}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(cron_job, scheduled),
            "namespace": cron_job.metadata.namespace,
            **({"labels": meta["labels"]} if meta.get("labels") else {}),
            "annotations": {**(meta.get("annotations") or {}), **stamp},
            "ownerReferences": [controlled_by(CRON_JOBS, cron_job.metadata)],
        },
        "spec": template.get("spec") or {},
    }
