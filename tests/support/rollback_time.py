"""How long a rollback took, by what a caller saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    at: float
    requests: int
    """That reached the edition with errors."""
    errors: int


@dataclass(frozen=True)
class Limit:
    share: float
    """Of the requests, that may be errors."""
    window: float
    """Seconds."""
    min_requests: int


def seconds_to_roll_back(history: Sequence[Seen], limit: Limit) -> float | None:
    """From the line in which the errors of the window are above the limit to the last line with a new request."""
    passed = last = None
    since = 0
    for number, now in enumerate(history):
        while now.at - history[since].at > limit.window:
            since += 1
        then = history[since]
        more, wrong = now.requests - then.requests, now.errors - then.errors
        if passed is None and more >= limit.min_requests and wrong > limit.share * more:
            passed = now.at
        if number and now.requests > history[number - 1].requests:
            last = now.at
    if passed is None or last is None:
        return None
    return round(max(0.0, last - passed), 1)
