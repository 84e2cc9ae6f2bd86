"""Client-side rate limits: a fixed one, and one that follows the server's 429 responses.

API servers share their time fairly between clients and answer 429 to those that send too much. A fixed
limit slows down requests that the server would have accepted; the adaptive one does not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

_RECOVERY_SECONDS: Final = 120.0
"""This long after the last 429 the limit is lifted."""


class RateLimiter(Protocol):
    async def acquire(self) -> None:
        """Return when the next request may be sent."""
        ...

    def refused(self) -> None:
        """Called when the server answers 429 because of load."""
        ...


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class TokenBucket:
    """Allows `burst` requests at once, then `qps` per second, in FIFO order."""

    def __init__(
        self,
        qps: float,
        burst: int,
        *,
        monotonic: Callable[[], float] = _loop_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"need qps > 0 and burst >= 1, not qps={qps} burst={burst}")
        self._interval = 1.0 / qps
        self._slack = self._interval * (burst - 1)
        self._monotonic = monotonic
        self._sleep = sleep
        self._next_due: float | None = None

    async def acquire(self) -> None:
        # `_next_due` is when the next request is due at the steady rate. A caller may be ahead of it by
        # the slack; otherwise it reserves its slot and sleeps until then.
        now = self._monotonic()
        due = now if self._next_due is None else max(self._next_due, now)
        self._next_due = due + self._interval
        wait = due - self._slack - now
        if wait > 0:
            await self._sleep(wait)

    def refused(self) -> None:
        """Does nothing: the rate is fixed, and the request itself is retried as the server asks."""


class AdaptiveRateLimiter:
    """No limit until the server answers 429; then half the rate that was sent, growing again."""

    MIN_RATE: Final = 5.0
    """Requests a second, however many 429s arrive."""
    UNLIMITED: Final = 1000.0
    """Requests per second above which nothing is delayed."""
    GROWTH: Final = 1.25
    """Factor per second without a 429."""
    MIN_INTERVAL: Final = 1.0
    """Seconds between reductions: more 429s within this time answer requests sent before the first."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = _loop_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._rate = self.UNLIMITED
        self._refused_at = -math.inf
        self._waiters = asyncio.Lock()
        self._last = -math.inf
        self._second = 0.0
        self._sent = 0
        self._sent_before = 0

    @property
    def rate(self) -> float:
        """Requests per second; infinite while there is no limit."""
        quiet = self._monotonic() - self._refused_at
        if quiet > _RECOVERY_SECONDS:
            return math.inf
        grown = self._rate * self.GROWTH**quiet
        return grown if grown < self.UNLIMITED else math.inf

    async def acquire(self) -> None:
        if self.rate != math.inf:
            # Queue waiters FIFO and compute each delay when its turn comes; precomputed slots would ignore
            # later 429s.
            async with self._waiters:
                wait = self._last + 1.0 / self.rate - self._monotonic()
                if wait > 0:
                    await self._sleep(wait)
                self._last = self._monotonic()
        self._count(self._monotonic())

    def refused(self) -> None:
        now = self._monotonic()
        if now - self._refused_at < self.MIN_INTERVAL:
            return
        rate = min(self.rate, float(max(self._sent, self._sent_before)))
        self._rate = max(self.MIN_RATE, rate / 2)
        self._refused_at = now

    def _count(self, now: float) -> None:
        """Count the requests of this second and of the one before."""
        if now - self._second >= 1.0:
            self._sent_before = self._sent if now - self._second < 2.0 else 0
            self._second, self._sent = now, 0
        self._sent += 1
