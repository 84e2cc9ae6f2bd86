"""Parses the five fields of a cron schedule, as robfig/cron does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


class ScheduleError(ValueError):
    """An invalid schedule or zone: the field, its value, the problem, and what to do."""

    def __init__(self, field_name: str, value: str, problem: str, cure: str) -> None:
        super().__init__(f"{field_name} {value!r}: {problem}; {cure}")
        self.field_name = field_name
        self.value = value
        self.problem = problem
        self.cure = cure


@dataclass(frozen=True, slots=True)
class Bounds:
    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)


def _numbered(names: str, start: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), start)}


_MONTHS: Final = _numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1)
_WEEKDAYS: Final = _numbered("sun mon tue wed thu fri sat", 0)
_MINUTE: Final = Bounds("minute", 0, 59)
_HOUR: Final = Bounds("hour", 0, 23)
_DAY: Final = Bounds("day of month", 1, 31)
_MONTH: Final = Bounds("month", 1, 12, _MONTHS)
_WEEKDAY: Final = Bounds("day of week", 0, 6, _WEEKDAYS)
FIELDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class Field:
    """The numbers of a field as bits, and whether it was written as `*`.

    If neither day field is `*`, a day matches when one of them does.
    """

    bits: int
    star: bool


def parse_field(text: str, bounds: Bounds) -> Field:
    """One field, such as `*/5` or `mon,wed`. Raises ScheduleError."""
    parts = [_parse_range(part, bounds) for part in text.split(",") if part]
    bits = 0
    for part in parts:
        bits |= part.bits
    return Field(bits, any(part.star for part in parts))


def _parse_range(text: str, bounds: Bounds) -> Field:
    """`N`, `N-M`, `*` or `?`, each with `/STEP`; `N/STEP` runs to the end of the field."""
    span, *steps = text.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    if len(steps) > 1:
        raise _error(bounds, text, "too many slashes")
    if star:
        low, high = bounds.low, bounds.high
    elif len(ends) > 2:
        raise _error(bounds, text, "too many hyphens")
    else:
        low = _number(ends[0], bounds, text, names=True)
        high = _number(ends[-1], bounds, text, names=True)
    step = _number(steps[0], bounds, text, names=False) if steps else 1
    if steps and len(ends) == 1:
        high = bounds.high
    _check_range(low, high, step, bounds, text)
    return Field(_bits(low, high, step), star and step <= 1)


def _check_range(low: int, high: int, step: int, bounds: Bounds, text: str) -> None:
    if low < bounds.low:
        raise _error(bounds, text, f"beginning of range ({low}) below minimum ({bounds.low})")
    if high > bounds.high:
        raise _error(bounds, text, f"end of range ({high}) above maximum ({bounds.high})")
    if low > high:
        raise _error(bounds, text, f"beginning of range ({low}) beyond end of range ({high})")
    if step == 0:
        raise _error(bounds, text, "step of range should be a positive number")


_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def _number(word: str, bounds: Bounds, text: str, *, names: bool) -> int:
    if names and word.lower() in bounds.names:
        return bounds.names[word.lower()]
    if not _NUMBER.fullmatch(word):
        raise _error(bounds, text, f"failed to read a number from {word!r}")
    if int(word) < 0:
        raise _error(bounds, text, f"negative number ({word}) not allowed")
    return int(word)


def _error(bounds: Bounds, text: str, problem: str) -> ScheduleError:
    words = f" or names such as {next(iter(bounds.names))}" if bounds.names else ""
    return ScheduleError(
        f"schedule, {bounds.name}",
        text,
        problem,
        f"use numbers from {bounds.low} to {bounds.high}{words}",
    )


def _bits(low: int, high: int, step: int) -> int:
    bits = 0
    for number in range(low, high + 1, step):
        bits |= 1 << number
    return bits
