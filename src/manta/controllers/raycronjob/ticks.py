"""Which tick of a schedule is due, and when the next one is."""

from __future__ import annotations

from datetime import datetime, timedelta

from manta.api.schedule import Schedule, parse_schedule
from manta.api.times import parse_time
from manta.controllers.raycronjob.snapshot import ChildJob, CronJob, CronSnapshot

LONGEST_SLEEP = timedelta(minutes=10)
"""Timers run on the monotonic clock, schedules on the wall clock, which people may set."""


def schedule_of(seen: CronSnapshot) -> Schedule:
    """Only for a spec without violations."""
    return parse_schedule(seen.cron.spec.schedule, seen.cron.spec.time_zone)


def due_tick(seen: CronSnapshot) -> datetime | None:
    """The tick to serve in this round, if any.

    Deterministic in what the server knows: a round repeated after a crash finds the same tick,
    or a later one when a later one has come due meanwhile.
    """
    base, schedule = last_served(seen), schedule_of(seen)
    first = schedule.next_after(base)
    if first is None or first > seen.now:
        return None
    return first if seen.settings.cron_replay_missed else schedule.latest(base, seen.now)


def next_tick(seen: CronSnapshot) -> datetime | None:
    """The first tick that is still to come."""
    schedule, base = schedule_of(seen), last_served(seen)
    latest = schedule.latest(base, seen.now)
    return schedule.next_after(latest or base)


def child_name(cron: CronJob, tick: datetime) -> str:
    """The name follows from the tick, to the minute, so that a tick cannot have two RayJobs."""
    return f"{cron.metadata.name}-{int(tick.timestamp()) // 60}"


def child_of(seen: CronSnapshot, tick: datetime) -> ChildJob | None:
    """The RayJob that serves this tick, if it is there already."""
    name = child_name(seen.cron, tick)
    return next((child for child in seen.children if child.metadata.name == name), None)


def last_served(seen: CronSnapshot) -> datetime:
    """From where ticks are counted: the last one served, or else the object's creation."""
    recorded = seen.cron.status.last_schedule_time
    return parse_time(recorded or seen.cron.metadata.creation_timestamp)
