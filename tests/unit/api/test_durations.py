"""Durations as Go writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from manta.api.durations import DurationError, parse_duration, parse_nanoseconds


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("5s", 5 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("1.5h", 5400 * 10**9),
        (".5s", 5 * 10**8),
        ("1.s", 10**9),
        ("100ms", 10**8),
        ("3us", 3000),
        ("3µs", 3000),
        ("3μs", 3000),
        ("7ns", 7),
        ("-1m", -60 * 10**9),
        ("+1m", 60 * 10**9),
        ("1m1m", 120 * 10**9),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, nanoseconds: int) -> None:
    assert parse_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1d", "1 h", "1h 5m", "Xm", ".s", "1.2.3s", "--1s", "9999999h", "1h-5m"]
)
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(DurationError, match="duration"):
        parse_nanoseconds(text)


def test_a_duration_becomes_a_timedelta() -> None:
    assert parse_duration("1h0.5s") == timedelta(hours=1, microseconds=500000)
    assert parse_duration("-1500ns") == timedelta(microseconds=-1)
