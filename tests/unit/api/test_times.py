"""RFC 3339 times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from manta.api.times import format_micro_time, format_time, parse_optional_time, parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-15T08:30:00Z", datetime(2026, 11, 15, 8, 30, tzinfo=UTC)),
        ("2026-11-15T09:30:00+01:00", datetime(2026, 11, 15, 8, 30, tzinfo=UTC)),
        ("2026-11-15T08:30:00.5Z", datetime(2026, 11, 15, 8, 30, 0, 500000, tzinfo=UTC)),
        ("2026-11-15T08:30:00.123456789Z", datetime(2026, 11, 15, 8, 30, 0, 123456, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_utc(text: str, expected: datetime) -> None:
    parsed = parse_time(text)
    assert parsed == expected
    assert parsed.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-15",
        "2026-11-15T08:30:00",
        "2026-11-15 08:30:00Z",
        "2026-11-15t08:30:00z",
        "2026-11-15T08:30Z",
        "2026-13-15T08:30:00Z",
        "2026-11-15T08:30:60Z",
        "0001-01-01T00:00:00+23:00",
        "٢٠٢٦-11-15T08:30:00Z",
    ],
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339") as caught:
        parse_time(text)
    assert repr(text) in str(caught.value)


def test_an_absent_time_is_none() -> None:
    assert parse_optional_time(None) is None
    assert parse_optional_time("") is None
    assert parse_optional_time("1970-01-01T00:00:00Z") == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_printed_time_has_whole_seconds_in_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert format_time(datetime(2026, 1, 2, 3, 4, 5, 999999, tzinfo=east)) == "2026-01-02T01:04:05Z"
    assert format_time(datetime(33, 1, 1, tzinfo=UTC)) == "0033-01-01T00:00:00Z"


def test_a_printed_micro_time_always_has_six_digits() -> None:
    assert format_micro_time(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000000Z"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        format_time(datetime(2026, 1, 1))  # noqa: DTZ001
