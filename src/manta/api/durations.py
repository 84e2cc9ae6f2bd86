"""Durations as Go writes them: `1h30m`, `500ms`. The only reader and writer of them."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]+)")
_MAX: Final = 2**63 - 1
_LONGEST: Final = 200
"""Characters; Python refuses to read numbers of thousands of digits."""


class DurationError(ValueError):
    """The text is not a duration; the message quotes it."""


def parse_nanoseconds(text: str) -> int:
    """Read a duration as Go's `time.ParseDuration` does. Raises DurationError."""
    if len(text) > _LONGEST:
        raise DurationError(f"duration {text[:40]!r}… is too long a text for a duration")
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0
    total = sum(_part(text, number, unit) for number, unit in _parts(text, body))
    if total > _MAX:
        raise DurationError(f"duration {text!r} is too long; at most 2562047h")
    return -total if text[0] == "-" else total


def parse_duration(text: str) -> timedelta:
    """Like `parse_nanoseconds`, as a timedelta that is cut to microseconds."""
    nanoseconds = parse_nanoseconds(text)
    whole = abs(nanoseconds) // 1000
    return timedelta(microseconds=whole if nanoseconds >= 0 else -whole)


def format_nanoseconds(nanoseconds: int) -> str:
    """Write a duration as Go prints it, such as 1h0m0s; below a second in nanoseconds."""
    sign, seconds = ("-" if nanoseconds < 0 else ""), abs(nanoseconds) / 1e9
    if not 1 <= seconds < 1e12:
        return f"{sign}{abs(nanoseconds)}ns" if nanoseconds else "0s"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    tail = f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{tail}"
    return f"{sign}{minutes}m{tail}" if minutes else f"{sign}{tail}"


def _parts(text: str, body: str) -> list[tuple[str, str]]:
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise DurationError(f"{text!r} is not a duration such as 90s, 1h30m or 500ms")
    return parts


def _part(text: str, number: str, unit: str) -> int:
    if unit not in _NANOSECONDS:
        raise DurationError(f"duration {text!r} has the unknown unit {unit!r}; use h, m, s or ms")
    return int(Fraction(number if number[0] != "." else f"0{number}") * _NANOSECONDS[unit])
