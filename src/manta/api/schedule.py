"""Cron schedules with the semantics of robfig/cron, which Kubernetes and KubeRay use.

Five fields (minute, hour, day of month, month, day of week), names, steps, `?`, descriptors such as `@daily`, and
`@every`. A wall-clock time that daylight saving skips has no tick; one that occurs twice has two. If either day
field is `*`, both must match, otherwise one of them is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol

from manta.api.cron_fields import FIELDS, ScheduleError, parse_field
from manta.api.durations import DurationError, parse_nanoseconds

__all__ = [
    "CronSchedule",
    "EverySchedule",
    "Schedule",
    "ScheduleError",
    "load_zone",
    "parse_schedule",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_YEARS_AHEAD: Final = 5
"""A schedule without a tick in five years (30 February) never has one."""


class Schedule(Protocol):
    def next_after(self, moment: datetime) -> datetime | None:
        """The first tick later than `moment`, or None if there is none within five years."""
        ...

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick that is later than `after` and not later than `until`."""
        ...


def parse_schedule(text: str, zone: str | None = None) -> Schedule:
    """The schedule; without a zone its times are UTC. Raises ScheduleError."""
    if "TZ" in text:
        raise ScheduleError(
            "schedule", text, "a time zone is not allowed in the schedule", "use the timeZone field"
        )
    where = load_zone(zone)
    if text.startswith("@"):
        return _descriptor(text, where)
    fields = text.split()
    if len(fields) != len(FIELDS):
        raise ScheduleError(
            "schedule",
            text,
            f"expected exactly 5 fields, found {len(fields)}",
            "write minute, hour, day of month, month and day of week",
        )
    return _cron(fields, where)


def load_zone(zone: str | None) -> tzinfo:
    """The zone of a `timeZone` field; None means UTC. Raises ScheduleError, also for an empty text."""
    if zone is None or zone == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:
        raise ScheduleError(
            "timeZone", zone, "no such time zone", "use a name such as Europe/Berlin, or omit it"
        ) from error


# ── fixed intervals ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class EverySchedule:
    """`@every 90s`: a tick a fixed number of whole seconds after the last."""

    interval: timedelta

    def next_after(self, moment: datetime) -> datetime | None:
        return moment.replace(microsecond=0) + self.interval

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        start = after.replace(microsecond=0)
        count = (until - start) // self.interval
        return start + count * self.interval if count > 0 else None


# ── cron fields ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """Each field is a set of numbers, as bits of an integer."""

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    both_days: bool
    """A day must match both day fields; otherwise one of the two is enough."""
    zone: tzinfo = UTC

    def next_after(self, moment: datetime) -> datetime | None:
        if not (self.minutes and self.hours and self.months and self._has_days()):
            return None
        found = _Search(self, (moment - _EPOCH) // _SECOND + 1).run()
        return None if found is None else _EPOCH + timedelta(seconds=found)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Bisection on the start from which there is still a tick before `until`."""
        found = self.next_after(after)
        if found is None or found > until:
            return None
        low, high = (found - _EPOCH) // _SECOND, (until - _EPOCH) // _SECOND
        while low < high:
            middle = (low + high) // 2
            tick = self.next_after(_EPOCH + timedelta(seconds=middle))
            if tick is None or tick > until:
                high = middle
            else:
                found, low = tick, (tick - _EPOCH) // _SECOND
        return found

    def matches_day(self, day: datetime) -> bool:
        of_month = self.days >> day.day & 1
        of_week = self.weekdays >> day.isoweekday() % 7 & 1
        return bool(of_month and of_week if self.both_days else of_month or of_week)

    def _has_days(self) -> bool:
        return bool(self.days and self.weekdays if self.both_days else self.days or self.weekdays)


@dataclass(slots=True)
class _Search:
    """Searches the next match: by months, then days, hours and minutes.

    A step that carries into a larger unit starts the search again, so that larger units are checked again. `at` is
    a Unix time in seconds; the zone gives the wall-clock time.
    """

    schedule: CronSchedule
    at: int
    moved: bool = False
    """A field was advanced: all smaller fields are at their start from now on."""
    last_year: int = field(init=False)

    def __post_init__(self) -> None:
        self.last_year = self._wall().year + _YEARS_AHEAD

    def run(self) -> int | None:
        while self._wall().year <= self.last_year:
            if self._month() and self._day() and self._hour() and self._minute() and self._second():
                return self.at
        return None

    def _month(self) -> bool:
        while not self.schedule.months >> (now := self._wall()).month & 1:
            if not self.moved:
                self.moved = True
                now = self._go(now.replace(day=1, hour=0, minute=0, second=0))
            now = self._go(_next_month(now))
            if now.month == 1:
                return False
        return True

    def _day(self) -> bool:
        while not self.schedule.matches_day(now := self._wall()):
            if not self.moved:
                self.moved = True
                now = self._go(now.replace(hour=0, minute=0, second=0))
            now = self._next_day(now)
            if now.hour:  # midnight is skipped, or occurs twice, on this day
                self.at += (24 - now.hour if now.hour > 12 else -now.hour) * 3600
                now = self._wall()
            if now.day == 1:
                return False
        return True

    def _next_day(self, now: datetime) -> datetime:
        """Some zones skipped a whole day (Samoa, 2011), where robfig/cron loops for ever."""
        before = self.at
        after = self._go(now + timedelta(days=1))
        if self.at <= before:
            self.at = before + 86400
            after = self._wall()
        return after

    def _hour(self) -> bool:
        while not self.schedule.hours >> (now := self._wall()).hour & 1:
            if not self.moved:
                self.moved = True
                self._go(now.replace(minute=0, second=0))
            self.at += 3600
            if self._wall().hour == 0:
                return False
        return True

    def _minute(self) -> bool:
        while not self.schedule.minutes >> self._wall().minute & 1:
            if not self.moved:
                self.moved = True
                self.at -= self.at % 60
            self.at += 60
            if self._wall().minute == 0:
                return False
        return True

    def _second(self) -> bool:
        seconds = self._wall().second
        if seconds:
            self.moved = True
            self.at += 60 - seconds
        return not seconds

    def _wall(self) -> datetime:
        return datetime.fromtimestamp(self.at, self.schedule.zone)

    def _go(self, wall: datetime) -> datetime:
        """Move to a wall-clock time. A skipped time is resolved with the offset before the gap, as Go does."""
        naive = int((wall.replace(tzinfo=UTC) - _EPOCH).total_seconds())
        guess = self._offset(naive)
        self.at = naive - (self._offset(naive - guess) if guess else 0)
        return self._wall()

    def _offset(self, at: int) -> int:
        offset = datetime.fromtimestamp(at, self.schedule.zone).utcoffset()
        return int(offset.total_seconds()) if offset else 0


def _next_month(day: datetime) -> datetime:
    if day.month == 12:
        return day.replace(year=day.year + 1, month=1)
    return day.replace(month=day.month + 1)


# ── parsing ──────────────────────────────────────────────────────────────────────────────

_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "


def _descriptor(text: str, zone: tzinfo) -> Schedule:
    if text in _DESCRIPTORS:
        return _cron(_DESCRIPTORS[text].split(), zone)
    if not text.startswith(_EVERY):
        known = ", ".join((*_DESCRIPTORS, "@every 1h30m"))
        raise ScheduleError("schedule", text, "unrecognized descriptor", f"use one of {known}")
    try:
        seconds = parse_nanoseconds(text[len(_EVERY) :]) // 10**9
    except DurationError as error:
        raise ScheduleError(
            "schedule", text, f"failed to parse the duration: {error}", "write @every 1h30m"
        ) from error
    return EverySchedule(timedelta(seconds=max(seconds, 1)))


def _cron(fields: list[str], zone: tzinfo) -> CronSchedule:
    minutes, hours, days, months, weekdays = (
        parse_field(text, bounds) for text, bounds in zip(fields, FIELDS, strict=True)
    )
    return CronSchedule(
        minutes=minutes.bits,
        hours=hours.bits,
        days=days.bits,
        months=months.bits,
        weekdays=weekdays.bits,
        both_days=days.star or weekdays.star,
        zone=zone,
    )
