"""Schedules: what must hold for every expression, zone and moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from manta.api.schedule import CronSchedule, parse_schedule
from support.schedules import ticks

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    single = number.map(str)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.tuples(st.one_of(st.just("*"), single, span), st.integers(1, 40)).map(
        lambda parts: f"{parts[0]}/{parts[1]}"
    )
    one = st.one_of(single, span, step)
    many = st.lists(one, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), many)


expressions = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(
    " ".join
)
moments = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2040, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
zones = st.sampled_from(ZONES)


def numbers(text: str, low: int, high: int) -> set[int]:
    """The slow and plain reading of a field."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        start, _, end = span.partition("-")
        first = low if start == "*" else int(start)
        last = high if start == "*" or (step and not end) else int(end or start)
        found.update(range(first, last + 1, int(step or 1)))
    return found


@given(expressions, zones, moments)
def test_a_tick_is_later_and_its_wall_clock_fits_every_field(
    text: str, zone: str, moment: datetime
) -> None:
    tick = parse_schedule(text, zone).next_after(moment)
    assert tick is not None
    assert tick > moment
    wall = tick.astimezone(ZoneInfo(zone))
    minute, hour, day, month, weekday = text.split()
    assert (wall.second, wall.microsecond) == (0, 0)
    assert wall.minute in numbers(minute, 0, 59)
    assert wall.hour in numbers(hour, 0, 23)
    assert wall.month in numbers(month, 1, 12)
    days = (wall.day in numbers(day, 1, 31), wall.isoweekday() % 7 in numbers(weekday, 0, 6))
    starred = any(part in ("*", "*/1") for text in (day, weekday) for part in text.split(","))
    assert all(days) if starred else any(days)


@given(expressions, moments)
def test_no_minute_between_the_moment_and_the_tick_would_have_fitted(
    text: str, moment: datetime
) -> None:
    schedule = parse_schedule(text)
    assert isinstance(schedule, CronSchedule)
    tick = schedule.next_after(moment)
    assert tick is not None
    minute = moment.replace(second=0, microsecond=0)
    for _ in range(500):
        minute += timedelta(minutes=1)
        if minute >= tick:
            break
        assert not (
            schedule.minutes >> minute.minute & 1
            and schedule.hours >> minute.hour & 1
            and schedule.months >> minute.month & 1
            and schedule.matches_day(minute)
        )


@settings(max_examples=50)
@given(expressions, zones, moments, st.integers(0, 60 * 24 * 3))
def test_the_latest_tick_is_the_last_of_all_ticks(
    text: str, zone: str, moment: datetime, minutes: int
) -> None:
    schedule, until = parse_schedule(text, zone), moment + timedelta(minutes=minutes)
    walked = list(ticks(schedule, moment, until))
    assert schedule.latest(moment, until) == (walked[-1] if walked else None)
    assert walked == sorted(set(walked))


@given(st.integers(1, 10**6), moments, st.integers(0, 10**7))
def test_an_interval_is_kept_to_the_second(seconds: int, moment: datetime, span: int) -> None:
    schedule = parse_schedule(f"@every {seconds}s")
    tick = schedule.next_after(moment)
    assert tick == moment.replace(microsecond=0) + timedelta(seconds=seconds)
    latest = schedule.latest(moment, moment + timedelta(seconds=span))
    if latest is None:
        assert tick > moment + timedelta(seconds=span)
    else:
        assert latest <= moment + timedelta(seconds=span) < latest + timedelta(seconds=seconds + 1)
