"""Optional brake on our own requests: a token bucket with a steady rate and a burst."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol


class RateLimiter(Protocol):
    async def acquire(self) -> None:
        """Return when one more request may leave."""
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
