"""Cron schedules, held against vectors made with the real robfig/cron library."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from manta.api.schedule import ScheduleError, load_zone, parse_schedule
from manta.api.times import format_time, parse_time
from support.schedules import ticks

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "robfig_cron.json").read_text()
)
NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)


def first_ticks(schedule: str, zone: str, after: str, count: int = 4) -> list[str]:
    parsed, moment, found = parse_schedule(schedule, zone), parse_time(after), []
    while len(found) < count and (tick := parsed.next_after(moment)) is not None:
        found.append(format_time(tick))
        moment = tick
    return found


@pytest.mark.parametrize("zone", VECTORS["ticks"])
def test_every_tick_is_robfigs_tick(zone: str) -> None:
    different = [
        (schedule, after, expected, found)
        for after, cases in VECTORS["ticks"][zone].items()
        for schedule, expected in cases.items()
        if (found := first_ticks(schedule, zone, after)) != expected
    ]
    assert different == []


@pytest.mark.parametrize(("text", "tick"), VECTORS["accepted"].items())
def test_what_robfig_accepts_is_accepted_and_means_the_same(text: str, tick: str) -> None:
    found = parse_schedule(text).next_after(NOW)
    assert (format_time(found) if found else "") == tick


@pytest.mark.parametrize("text", VECTORS["refused"])
def test_what_robfig_refuses_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)


@pytest.mark.parametrize(
    ("text", "field", "value", "problem"),
    [
        ("60 * * * *", "minute", "60", "above maximum (59)"),
        ("0 24 * * *", "hour", "24", "above maximum (23)"),
        ("0 0 0 * *", "day of month", "0", "below minimum (1)"),
        ("0 0 * x *", "month", "x", "failed to read a number"),
        ("0 0 * * 5-2", "day of week", "5-2", "beyond end of range"),
        ("*/0 * * * *", "minute", "*/0", "positive number"),
        ("* * * *", "schedule", "* * * *", "expected exactly 5 fields, found 4"),
        ("@often", "schedule", "@often", "unrecognized descriptor"),
        ("@every soon", "schedule", "@every soon", "failed to parse the duration"),
    ],
)
def test_a_refusal_names_the_field_the_value_and_the_cure(
    text: str, field: str, value: str, problem: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text)
    assert field in caught.value.field_name
    assert caught.value.value == value
    assert problem in str(caught.value)
    assert caught.value.cure in str(caught.value)


@pytest.mark.parametrize("text", ["TZ=UTC 0 0 * * *", "CRON_TZ=Asia/Tokyo @daily", "0 0 * * TZ"])
def test_a_zone_inside_the_schedule_is_refused_with_a_pointer_to_the_right_field(text: str) -> None:
    with pytest.raises(ScheduleError, match="use the timeZone field"):
        parse_schedule(text)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe"])
def test_a_zone_that_is_not_there_is_refused_by_name(zone: str) -> None:
    with pytest.raises(ScheduleError, match="no such time zone") as caught:
        parse_schedule("0 0 * * *", zone)
    assert caught.value.field_name == "timeZone"


def test_without_a_zone_times_are_utc() -> None:
    assert load_zone(None) is UTC
    assert parse_schedule("0 12 * * *").next_after(NOW) == datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_a_wall_clock_time_inside_the_spring_gap_is_skipped() -> None:
    assert first_ticks("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2) == [
        "2026-03-30T00:30:00Z",
        "2026-03-31T00:30:00Z",
    ]


def test_a_wall_clock_time_inside_the_autumn_overlap_comes_twice() -> None:
    assert first_ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3) == [
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
        "2026-10-26T01:30:00Z",
    ]


def test_a_day_that_a_zone_left_out_does_not_stop_the_search() -> None:
    assert first_ticks("0 0 15 * *", "Pacific/Apia", "2011-12-28T20:00:00Z", 1) == [
        "2012-01-14T10:00:00Z"
    ]


def test_a_schedule_that_never_comes_is_none() -> None:
    assert parse_schedule("0 0 30 2 *").next_after(NOW) is None
    assert parse_schedule("0 0 30 2 *").latest(NOW, NOW + timedelta(days=9999)) is None
    assert parse_schedule(", * * * *").next_after(NOW) is None


@pytest.mark.parametrize(
    ("text", "until", "latest"),
    [
        ("* * * * *", "2031-11-15T08:30:00Z", "2031-11-15T08:30:00Z"),
        ("* * * * *", "2031-11-15T08:30:59Z", "2031-11-15T08:30:00Z"),
        ("* * * 1 *", "2027-12-01T00:00:00Z", "2027-01-31T23:59:00Z"),
        ("0 9 * * MON", "2026-11-20T00:00:00Z", "2026-11-16T09:00:00Z"),
        ("0 0 1 1 *", "2026-12-31T23:59:59Z", None),
        ("* * * * *", "2026-11-15T08:30:59Z", None),
        ("@every 7m", "2026-11-15T09:00:00Z", "2026-11-15T08:58:00Z"),
        ("@every 7m", "2026-11-15T08:36:59Z", None),
        ("@every 7m", "2026-11-15T08:00:00Z", None),
    ],
)
def test_the_latest_missed_tick_is_found_without_walking_all(
    text: str, until: str, latest: str | None
) -> None:
    found = parse_schedule(text).latest(NOW, parse_time(until))
    assert (format_time(found) if found else None) == latest


def test_ticks_lists_all_between_two_moments() -> None:
    found = list(ticks(parse_schedule("*/20 * * * *"), NOW, NOW + timedelta(hours=1)))
    assert [format_time(tick)[11:16] for tick in found] == ["08:40", "09:00", "09:20"]


def test_an_interval_counts_from_the_last_tick_in_whole_seconds() -> None:
    start = NOW.replace(microsecond=250000)
    assert parse_schedule("@every 90s").next_after(start) == NOW + timedelta(seconds=90)
    assert parse_schedule("@every 10ms").next_after(start) == NOW + timedelta(seconds=1)
