"""Plans a CronJob: start the Job that is due, replace active ones, delete old ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from manta.api.resources import CRON_JOBS, JOBS
from manta.api.schedule import Schedule, ScheduleError
from manta.api.well_known import ANNOTATION_CRON_JOB_SCHEDULED_TIME
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.cronjob.timing import (
    MAX_WAIT,
    due,
    in_zone,
    job_name,
    next_time,
    schedule_of,
)
from manta.localplane.builtin.job.verdict import condition
from manta.localplane.builtin.views import Job
from manta.localplane.builtin.workload_views import CronJob
from manta.reconcile.actions import Create, Delete
from manta.reconcile.causes import ActionCause, Reasons
from manta.reconcile.plan import NOTHING, Plan, Wait, do

_DELETED = Reasons(
    "Delete", "SuccessfulDelete", "FailedDelete", "Deleted job {key.name}", "Deleted job: {error}"
)


class Cause(ActionCause):
    START = (
        Reasons(
            "Create",
            "SuccessfulCreate",
            "FailedCreate",
            "Created job {key.name}",
            "Error creating job: {error}",
        ),
        "a scheduled time has come",
    )
    REPLACE = _DELETED, "the concurrency policy replaces the Job that is active"
    HISTORY = _DELETED, "more finished Jobs are kept than wanted"


def plan(snapshot: CronJobSnapshot) -> Plan:
    cron_job = snapshot.cron_job
    if cron_job.metadata.deletion_timestamp:
        return NOTHING
    history = _plan_history(snapshot)
    schedule = schedule_of(cron_job)
    if cron_job.spec.suspend or isinstance(schedule, ScheduleError):
        return history
    scheduled = due(snapshot, schedule)
    start = NOTHING if scheduled is None else _start(snapshot, scheduled)
    return history.then(start).then(_until_next(snapshot, schedule))


def blocked(snapshot: CronJobSnapshot) -> bool:
    """Whether a scheduled time is due but concurrencyPolicy Forbid waits for an active Job."""
    schedule = schedule_of(snapshot.cron_job)
    if isinstance(schedule, ScheduleError) or snapshot.cron_job.spec.suspend:
        return False
    forbids = snapshot.cron_job.spec.concurrency_policy == "Forbid"
    return forbids and bool(snapshot.active) and due(snapshot, schedule) is not None


def _start(snapshot: CronJobSnapshot, scheduled: datetime) -> Plan:
    if blocked(snapshot):
        return Plan(notes=("concurrencyPolicy Forbid: a Job is still active",))
    replaced = NOTHING
    name = job_name(snapshot.cron_job, scheduled)
    if snapshot.cron_job.spec.concurrency_policy == "Replace":
        replaced = _delete(
            (job for job in snapshot.active if job.metadata.name != name), Cause.REPLACE
        )
    return replaced.then(do(Create(JOBS, _job(snapshot.cron_job, scheduled), Cause.START)))


def _until_next(snapshot: CronJobSnapshot, schedule: Schedule) -> Plan:
    upcoming = next_time(snapshot, schedule)
    if upcoming is None:
        return NOTHING
    left = max(upcoming - snapshot.now, timedelta(0))
    return Plan(wait=Wait("until the next scheduled time", min(left, MAX_WAIT)))


def _plan_history(snapshot: CronJobSnapshot) -> Plan:
    """Delete the oldest finished Jobs beyond the limits for successful and for failed ones."""
    spec = snapshot.cron_job.spec
    failed = [job for job in snapshot.finished if condition(job, "Failed")]
    complete = [job for job in snapshot.finished if not condition(job, "Failed")]
    surplus = [
        *_beyond(complete, spec.successful_jobs_history_limit),
        *_beyond(failed, spec.failed_jobs_history_limit),
    ]
    return _delete(surplus, Cause.HISTORY)


def _beyond(jobs: list[Job], limit: int | None) -> list[Job]:
    return [] if limit is None else jobs[: max(0, len(jobs) - limit)]


def _delete(jobs: Iterable[Job], cause: Cause) -> Plan:
    remaining = (job.metadata for job in jobs if job.metadata.deletion_timestamp is None)
    return do(*(Delete(JOBS, meta.key, meta.uid, cause) for meta in remaining))


def _job(cron_job: CronJob, scheduled: datetime) -> dict[str, Any]:
    template = cron_job.spec.job_template
    meta = template.get("metadata") or {}
    stamp = {ANNOTATION_CRON_JOB_SCHEDULED_TIME: in_zone(cron_job, scheduled)}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(cron_job, scheduled),
            "namespace": cron_job.metadata.namespace,
            **({"labels": meta["labels"]} if meta.get("labels") else {}),
            "annotations": {**(meta.get("annotations") or {}), **stamp},
            "ownerReferences": [CRON_JOBS.controller_reference(cron_job.metadata)],
        },
        "spec": template.get("spec") or {},
    }
