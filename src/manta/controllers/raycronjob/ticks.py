"""Which tick of a schedule is due, and when the next one is."""

from __future__ import annotations

from datetime import datetime, timedelta

from manta.api.ray.cronjob import RayCronJob
from manta.api.schedule import Schedule, parse_schedule
from manta.api.times import parse_time
from manta.controllers.raycronjob.snapshot import ChildJob, CronSnapshot

MAX_SLEEP = timedelta(minutes=10)
"""Timers run on the monotonic clock, schedules on the wall clock, which may be set meanwhile."""


def schedule_of(snapshot: CronSnapshot) -> Schedule:
    """Raises ScheduleError if the spec has violations."""
    return parse_schedule(snapshot.cron.spec.schedule, snapshot.cron.spec.time_zone)


def due_tick(snapshot: CronSnapshot) -> datetime | None:
    """The tick to serve in this reconcile, if any.

    It depends only on what the API server knows: a reconcile that is repeated after a crash finds
    the same tick, or a later one that has come due meanwhile.
    """
    base, schedule = last_served(snapshot), schedule_of(snapshot)
    first = schedule.next_after(base)
    if first is None or first > snapshot.now:
        return None
    return first if snapshot.settings.cron_replay_missed else schedule.latest(base, snapshot.now)


def next_tick(snapshot: CronSnapshot) -> datetime | None:
    """The first tick that is still to come."""
    schedule, base = schedule_of(snapshot), last_served(snapshot)
    latest = schedule.latest(base, snapshot.now)
    return schedule.next_after(latest or base)


def next_wakeup(snapshot: CronSnapshot) -> timedelta | None:
    """How long to sleep until the next tick. None: no tick is served before the object changes."""
    meta, spec = snapshot.cron.metadata, snapshot.cron.spec
    if meta.deletion_timestamp is not None or snapshot.violations or spec.suspend:
        return None
    upcoming = next_tick(snapshot)
    return min(upcoming - snapshot.now, MAX_SLEEP) if upcoming is not None else None


def child_name(cron: RayCronJob, tick: datetime) -> str:
    """The name follows from the tick, to the minute, so that a tick cannot have two RayJobs."""
    return f"{cron.metadata.name}-{int(tick.timestamp()) // 60}"


def child_of(snapshot: CronSnapshot, tick: datetime) -> ChildJob | None:
    """The RayJob that serves this tick, if it is there already."""
    name = child_name(snapshot.cron, tick)
    return next((child for child in snapshot.children if child.metadata.name == name), None)


def last_served(snapshot: CronSnapshot) -> datetime:
    """The time from which ticks are counted: the last one served, or else the object's creation."""
    recorded = snapshot.cron.status.last_schedule_time
    return parse_time(recorded or snapshot.cron.metadata.creation_timestamp)
