"""Durations as Go writes them (`1h30m`, `500ms`), for schedules and annotations."""

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
"""Characters. No duration needs more, and Python reads no numbers of thousands of digits."""


class DurationError(ValueError):
    """The text is no duration; the message names it."""


def parse_nanoseconds(text: str) -> int:
    """`time.ParseDuration` of Go: a sign, then numbers with units; a bare 0 needs no unit."""
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
    """Like `parse_nanoseconds`, as a timedelta; what is below a microsecond is dropped."""
    nanoseconds = parse_nanoseconds(text)
    whole = abs(nanoseconds) // 1000
    return timedelta(microseconds=whole if nanoseconds >= 0 else -whole)


def _parts(text: str, body: str) -> list[tuple[str, str]]:
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise DurationError(f"{text!r} is not a duration such as 90s, 1h30m or 500ms")
    return parts


def _part(text: str, number: str, unit: str) -> int:
    if unit not in _NANOSECONDS:
        raise DurationError(f"duration {text!r} has the unknown unit {unit!r}; use h, m, s or ms")
    return int(Fraction(number if number[0] != "." else f"0{number}") * _NANOSECONDS[unit])
