"""RFC 3339 times as Kubernetes writes them: parsed strictly, printed in UTC.

Every time in Manta is an aware datetime; naive ones are refused here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
LONGEST_SECONDS = 1000 * 365 * 86_400


def parse_time(text: str) -> datetime:
    """The time, in UTC. Digits beyond the microsecond are dropped. Raises ValueError."""
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-11-15T08:30:00Z")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not an RFC 3339 time: {error}") from error


def bounded_seconds(seconds: int) -> timedelta:
    """A timedelta of at most a thousand years: Kubernetes' int64 fields allow values that overflow a
    datetime, which must not fail a reconcile."""
    return timedelta(seconds=min(seconds, LONGEST_SECONDS))


def parse_optional_time(text: str | None) -> datetime | None:
    """Like `parse_time`, with None for a field that is absent or empty."""
    return parse_time(text) if text else None


def format_time(moment: datetime) -> str:
    """`metav1.Time`: whole seconds, fractions dropped, always with Z."""
    return _in_utc(moment).replace(microsecond=0).isoformat() + "Z"


def format_time_rounded_up(moment: datetime) -> str:
    """`metav1.Time` that is never before `moment`: a pause that is counted from it is never too short."""
    return format_time(moment + timedelta(microseconds=999_999))


def format_micro_time(moment: datetime) -> str:
    """`metav1.MicroTime`: always six digits of fraction, always with Z."""
    return _in_utc(moment).isoformat(timespec="microseconds") + "Z"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; times in Manta are aware")
    return moment.astimezone(UTC).replace(tzinfo=None)
