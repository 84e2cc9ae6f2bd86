"""When a request may be repeated, and after how long: pure functions of what went wrong.

Rule 1: a write is repeated only when it provably was not carried out: it never left us, or the
        server turned it away with 429.
Rule 2: repeats are few. Waiting out a long outage is the work queue's business, not ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from manta.kube.errors import ApiError, MantaError, TooManyRequests, Unavailable, Unreachable

READS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int = 5
    """In all, the first one included."""
    first_delay: float = 0.2
    longest_delay: float = 5.0
    longest_retry_after: float = 60.0
    """A server that names a longer time gets its way from the caller, not from us."""
    patience: float = 60.0
    """Seconds after which no further attempt begins: a server that swallows requests costs a
    whole timeout each time."""


DEFAULT = RetryPolicy()
NEVER = RetryPolicy(attempts=1)
"""For callers with a deadline of their own, such as leader election."""


def may_repeat(method: str, error: MantaError) -> bool:
    """Whether sending the same request again can do no harm and may do some good."""
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
class Tries:
    """How often and how long a request has been tried."""

    attempts: int = 1
    elapsed: float = 0.0


def delay_before_next(
    policy: RetryPolicy, so_far: Tries, method: str, error: MantaError, chance: float
) -> float | None:
    """Seconds to wait before the next attempt, or None: give up.

    `chance` in [0, 1) spreads clients that failed together.
    """
    if so_far.attempts >= policy.attempts or not may_repeat(method, error):
        return None
    delay = _delay(policy, so_far.attempts, error, chance)
    return None if delay is None or so_far.elapsed + delay > policy.patience else delay


def _delay(policy: RetryPolicy, attempt: int, error: MantaError, chance: float) -> float | None:
    grown = min(policy.longest_delay, policy.first_delay * 2.0 ** (attempt - 1))
    asked = error.retry_after if isinstance(error, ApiError) else None
    if asked is None:
        return grown * (0.5 + chance / 2)
    return None if asked > policy.longest_retry_after else asked + grown * chance
