"""Brakes on our own requests: a fixed one, and one that only the server's own word sets.

Servers share their time fairly between clients and say 429 to whoever asks too much. A number that
was guessed for all of them slows down work that they would have taken; `Considerate` guesses none.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

_FORGOTTEN: Final = 120.0
"""After so many seconds without a refusal the last one says nothing any more."""


class RateLimiter(Protocol):
    async def acquire(self) -> None:
        """Return when one more request may leave."""
        ...

    def refused(self) -> None:
        """The server has said 429, for all that we ask."""
        ...


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class TokenBucket:
    """Lets `burst` requests pass at once and `qps` a second from then on, first come first served."""

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
        # One number is the whole bucket: when the next request is due by the steady rate. A caller
        # may be ahead of it by the slack; beyond, it books its place and sleeps until then.
        now = self._monotonic()
        due = now if self._next_due is None else max(self._next_due, now)
        self._next_due = due + self._interval
        wait = due - self._slack - now
        if wait > 0:
            await self._sleep(wait)

    def refused(self) -> None:
        """The rate is what it was told to be; the request itself waits as the server asks."""


class Considerate:
    """No brake until the server says 429; then half of what was sent, and ever more again."""

    LOWEST: Final = 5.0
    FREE: Final = 1000.0
    """A rate so high that nothing is held back any more."""
    GROWTH: Final = 1.25
    """For every second without a refusal."""
    DEAF: Final = 1.0
    """Refusals within a second of each other are one: they answer what was sent before."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = _loop_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._rate = self.FREE
        self._refused_at = -math.inf
        self._line = asyncio.Lock()
        self._last = -math.inf
        self._second = 0.0
        self._sent = 0
        self._sent_before = 0

    @property
    def rate(self) -> float:
        """Requests a second; infinite while nothing is held back."""
        quiet = self._monotonic() - self._refused_at
        if quiet > _FORGOTTEN:
            return math.inf
        grown = self._rate * self.GROWTH**quiet
        return grown if grown < self.FREE else math.inf

    async def acquire(self) -> None:
        if self.rate != math.inf:
            # In a line, and by the rate of the moment when it is one's turn: places that were given
            # out ahead would know nothing of what the server says in the meantime.
            async with self._line:
                wait = self._last + 1.0 / self.rate - self._monotonic()
                if wait > 0:
                    await self._sleep(wait)
                self._last = self._monotonic()
        self._count(self._monotonic())

    def refused(self) -> None:
        now = self._monotonic()
        if now - self._refused_at < self.DEAF:
            return
        rate = min(self.rate, float(max(self._sent, self._sent_before)))
        self._rate = max(self.LOWEST, rate / 2)
        self._refused_at = now

    def _count(self, now: float) -> None:
        """How many left in this second and in the one before."""
        if now - self._second >= 1.0:
            self._sent_before = self._sent if now - self._second < 2.0 else 0
            self._second, self._sent = now, 0
        self._sent += 1
