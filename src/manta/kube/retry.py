"""Whether a request is retried, and after how long. Pure.

A write is retried only when the server cannot have executed it: it was not sent, or the server answered 429.
Retries are few: the work queue waits out long outages.
"""

from __future__ import annotations

from dataclasses import dataclass

from manta.kube.errors import ApiError, MantaError, TooManyRequests, Unavailable, Unreachable

READS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int = 5
    """Including the first."""
    first_delay: float = 0.2
    longest_delay: float = 5.0
    longest_retry_after: float = 60.0
    """A longer Retry-After is left to the caller: the request fails at once."""
    max_elapsed: float = 60.0
    """Seconds after which no further attempt begins: each attempt at a silent server lasts a whole timeout."""


DEFAULT = RetryPolicy()


def may_repeat(method: str, error: MantaError) -> bool:
    """Whether sending the request again is safe and may succeed."""
    match error:
        case TooManyRequests():
            return error.retry_after is not None or method in READS
        case Unreachable():
            return method in READS or not error.sent
        case Unavailable():
            return method in READS
        case _:
            return False


@dataclass(frozen=True, slots=True)
class RetryState:
    """How often, and for how many seconds, a request has been tried."""

    attempts: int = 1
    elapsed: float = 0.0


def delay_before_next(
    policy: RetryPolicy, so_far: RetryState, method: str, error: MantaError, jitter: float
) -> float | None:
    """Seconds to wait before the next attempt; None: give up.

    `jitter` in [0, 1) spreads clients that failed at the same time.
    """
    if so_far.attempts >= policy.attempts or not may_repeat(method, error):
        return None
    delay = _delay(policy, so_far.attempts, error, jitter)
    return None if delay is None or so_far.elapsed + delay > policy.max_elapsed else delay


def _delay(policy: RetryPolicy, attempt: int, error: MantaError, jitter: float) -> float | None:
    grown = min(policy.longest_delay, policy.first_delay * 2.0 ** (attempt - 1))
    retry_after = error.retry_after if isinstance(error, ApiError) else None
    if retry_after is None:
        return grown * (0.5 + jitter / 2)
    return None if retry_after > policy.longest_retry_after else retry_after + grown * jitter
