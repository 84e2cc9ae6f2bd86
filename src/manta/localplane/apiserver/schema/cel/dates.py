"""Parts of timestamps and durations: `getFullYear()` and its relatives."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from manta.localplane.apiserver.schema.cel.errors import NO_OVERLOAD, EvaluationError

Function: TypeAlias = Callable[..., Any]
_OFFSET = re.compile(r"([-+]?)([0-9]{1,2}):([0-9]{2})")


def _zone(name: Any) -> tzinfo:
    """Return the zone of a name such as `Europe/Paris` or an offset such as `+02:00`."""
    if not isinstance(name, str):
        raise EvaluationError(NO_OVERLOAD)
    if offset := _OFFSET.fullmatch(name):
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _of_date(part: Callable[[datetime], int]) -> Function:
    def get(value: Any, zone: Any = None) -> int:
        if not isinstance(value, datetime):
            raise EvaluationError(NO_OVERLOAD)
        return part(value.astimezone(UTC if zone is None else _zone(zone)))

    return get


def _of_both(part: Callable[[datetime], int], seconds: float) -> Function:
    """For a duration: its whole length in this unit."""
    of_date = _of_date(part)

    def get(value: Any, zone: Any = None) -> int:
        if isinstance(value, timedelta) and zone is None:
            return int(value / timedelta(seconds=seconds))
        return int(of_date(value, zone))

    return get


_GETTERS: dict[str, Function] = {
    "getFullYear": _of_date(lambda date: date.year),
    "getMonth": _of_date(lambda date: date.month - 1),
    "getDate": _of_date(lambda date: date.day),
    "getDayOfMonth": _of_date(lambda date: date.day - 1),
    "getDayOfWeek": _of_date(lambda date: date.isoweekday() % 7),
    "getDayOfYear": _of_date(lambda date: date.timetuple().tm_yday - 1),
    "getHours": _of_both(lambda date: date.hour, 3600),
    "getMinutes": _of_both(lambda date: date.minute, 60),
    "getSeconds": _of_both(lambda date: date.second, 1),
    "getMilliseconds": _of_both(lambda date: date.microsecond // 1000, 0.001),
}
METHODS: dict[tuple[str, int], Function] = {
    (name, count): getter for name, getter in _GETTERS.items() for count in (0, 1)
}
