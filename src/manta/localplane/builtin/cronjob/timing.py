"""Which scheduled time of a CronJob is due, and when the next one is. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from manta.api.schedule import Schedule, ScheduleError, load_zone, parse_schedule
from manta.api.times import parse_time
from manta.localplane.builtin.cronjob.snapshot import CronJobSnapshot
from manta.localplane.builtin.workload_views import CronJob

LONGEST_SLEEP = timedelta(minutes=10)
"""Timers run on the monotonic clock, schedules on the wall clock, which people may set."""


def schedule_of(cron_job: CronJob) -> Schedule | ScheduleError:
    """The schedule, or what is wrong with it: an object stored before this check may be invalid."""
    try:
        return parse_schedule(cron_job.spec.schedule, cron_job.spec.time_zone)
    except ScheduleError as error:
        return error


def due(seen: CronJobSnapshot, schedule: Schedule) -> datetime | None:
    """The latest time that has come and has no Job; times older than the deadline are missed."""
    return schedule.latest(_since(seen), seen.now)


def next_time(seen: CronJobSnapshot, schedule: Schedule) -> datetime | None:
    return schedule.next_after(due(seen, schedule) or _since(seen))


def _since(seen: CronJobSnapshot) -> datetime:
    cron_job = seen.cron_job
    said = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    last, deadline = parse_time(said), cron_job.spec.starting_deadline_seconds
    if deadline is None:
        return last
    return max(last, seen.now - timedelta(seconds=deadline))


def job_name(cron_job: CronJob, scheduled: datetime) -> str:
    return f"{cron_job.metadata.name}-{int(scheduled.timestamp()) // 60}"


def in_zone(cron_job: CronJob, scheduled: datetime) -> str:
    """The scheduled time as the CronJob's own zone writes it."""
    local = scheduled.astimezone(load_zone(cron_job.spec.time_zone)).isoformat(timespec="seconds")
    return local.replace("+00:00", "Z")
