"""Which scheduled time of a CronJob is due, and when the next one is. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from manta.api.schedule import Schedule, ScheduleError, load_zone, parse_schedule
from manta.api.times import parse_time
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.workload_views import CronJob

MAX_WAIT = timedelta(minutes=10)
"""Timers use the monotonic clock. Check the wall clock this often, since it may be set."""


def schedule_of(cron_job: CronJob) -> Schedule | ScheduleError:
    """The schedule, or what is wrong with it: an object stored before this check may be invalid."""
    try:
        return parse_schedule(cron_job.spec.schedule, cron_job.spec.time_zone)
    except ScheduleError as error:
        return error


def due(snapshot: CronJobSnapshot, schedule: Schedule) -> datetime | None:
    """The latest scheduled time without a Job, within startingDeadlineSeconds; None if none is due."""
    return schedule.latest(_since(snapshot), snapshot.now)


def next_time(snapshot: CronJobSnapshot, schedule: Schedule) -> datetime | None:
    return schedule.next_after(due(snapshot, schedule) or _since(snapshot))


def _since(snapshot: CronJobSnapshot) -> datetime:
    cron_job = snapshot.cron_job
    since = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    last, deadline = parse_time(since), cron_job.spec.starting_deadline_seconds
    if deadline is None:
        return last
    return max(last, snapshot.now - timedelta(seconds=deadline))


def job_name(cron_job: CronJob, scheduled: datetime) -> str:
    return f"{cron_job.metadata.name}-{int(scheduled.timestamp()) // 60}"


def in_zone(cron_job: CronJob, scheduled: datetime) -> str:
    """The scheduled time in the time zone of the CronJob."""
    local = scheduled.astimezone(load_zone(cron_job.spec.time_zone)).isoformat(timespec="seconds")
    return local.replace("+00:00", "Z")
