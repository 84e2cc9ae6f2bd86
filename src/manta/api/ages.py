"""Ages as kubectl prints them: 42s, 5m10s, 3h, 2d4h, 1y20d."""

from __future__ import annotations

from datetime import datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY


def age(since: datetime, now: datetime) -> str:
    return short((now - since).total_seconds())


def short(seconds: float) -> str:
    """A duration in one or two units, with the thresholds of kubectl."""
    if seconds < -1:
        return "<invalid>"
    total = max(0, int(seconds))
    if total < 2 * _MINUTE:
        return f"{total}s"
    if total < 10 * _MINUTE:
        return _two(total, _MINUTE, "m", 1, "s")
    if total < 3 * _HOUR:
        return f"{total // _MINUTE}m"
    if total < 8 * _HOUR:
        return _two(total, _HOUR, "h", _MINUTE, "m")
    if total < 2 * _DAY:
        return f"{total // _HOUR}h"
    if total < 8 * _DAY:
        return _two(total, _DAY, "d", _HOUR, "h")
    if total < 2 * _YEAR:
        return f"{total // _DAY}d"
    if total < 8 * _YEAR:
        return _two(total, _YEAR, "y", _DAY, "d")
    return f"{total // _YEAR}y"


def _two(total: int, unit: int, sign: str, below: int, below_sign: str) -> str:
    rest = total % unit // below
    return f"{total // unit}{sign}{rest}{below_sign}" if rest else f"{total // unit}{sign}"
