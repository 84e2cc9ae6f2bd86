"""How many actions of a plan run at once, and when a large plan yields to small ones.

The limit grows by one with every success, so it doubles with every round trip, up to a maximum. A
plan of hundreds of actions also measures latency: requests that wait in the server's queue only delay
other clients. It keeps few requests queued, but enough in flight to a server that is far away. It also
yields while small plans run, so that a cluster of four Pods does not wait behind one that grows by
hundreds. The total time that a plan yields is bounded, so that neither starves the other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MAX_CONCURRENT = 16
"""Enough to keep a server busy."""
LARGE = 100
"""Actions. A smaller plan ends too soon to delay others."""
LINGER_SECONDS = 0.5
"""How long large plans yield after a small plan created something: the server still has to start and
watch its Pods."""
MAX_YIELD_SECONDS = 2.0
"""How long one large plan yields in total."""
MAX_YIELDING = 2
"""Plans that yield at once. Each of them occupies a worker of its controller."""

FEW_QUEUED, MANY_QUEUED = 0.25, 0.75
"""Requests of a large plan in the server's queue: below, the limit grows; above, it shrinks."""
LATENCY_NOISE = 1.3
"""Latency varies; up to this multiple of the best observed value is noise, not queueing."""
NEAR_SECONDS = 0.006
"""Best latency of a server nearby. Anything above it is distance."""
IN_FLIGHT_RATE = 600.0
"""Requests a second: requests in flight at this rate are not load yet."""
MAX_IN_FLIGHT = 12
"""A slow server looks like a distant one; the limit must be able to shrink for it."""
MIN_SECONDS = 0.001
"""The resolution of event loop clocks."""


@dataclass(slots=True)
class ConcurrencyLimit:
    is_large: bool
    limit: int = 1
    yield_seconds_left: float = MAX_YIELD_SECONDS
    _count: int = 0
    """Answers in this stage."""
    _mean: float = 0.0
    """Recent latency in seconds, a moving average."""
    _best_mean: float = math.inf
    """The lowest mean of this stage. A lucky first answer only makes this plan slower."""

    def begin_stage(self) -> None:
        """Forget the latency: other requests take another time."""
        self._count, self._mean, self._best_mean = 0, 0.0, math.inf
        if self.is_large:
            self.limit = 1

    def succeeded(self, seconds: float) -> None:
        if not self.is_large:
            self.limit = min(self.limit + 1, MAX_CONCURRENT)
            return
        self._measure(max(seconds, MIN_SECONDS))
        queued = self._queued()
        if queued < FEW_QUEUED:
            self.limit = min(self.limit + 1, MAX_CONCURRENT)
        elif queued > MANY_QUEUED and self.limit > self._in_flight():
            self.limit -= 1

    def _measure(self, seconds: float) -> None:
        self._count += 1
        self._mean += (seconds - self._mean) / min(self._count, 8)
        self._best_mean = min(self._best_mean, self._mean)

    def _queued(self) -> float:
        """How many of the running requests wait in the server's queue, judged by their latency."""
        return self.limit * (1 - LATENCY_NOISE * self._best_mean / self._mean)

    def _in_flight(self) -> int:
        """The limit never shrinks below this, so that a distant server always has a request."""
        return min(
            1 + round(max(0.0, self._best_mean - NEAR_SECONDS) * IN_FLIGHT_RATE), MAX_IN_FLIGHT
        )

    def failed(self) -> None:
        """Start slowly again with the next stage."""
        self.limit = 1


@dataclass(slots=True)
class LargePlanThrottle:
    """Shared by all plans of one executor."""

    _small: int = 0
    """Small plans that run now."""
    _yielding: int = 0
    _linger_until: float = 0.0
    _no_small: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def small_plan(self, *, lingers: bool) -> Iterator[None]:
        """Large plans yield while the small plan runs, and a moment longer if it `lingers`."""
        self._small += 1
        self._no_small.clear()
        try:
            yield
        finally:
            self._small -= 1
            if lingers:
                self._linger_until = asyncio.get_running_loop().time() + LINGER_SECONDS
            if not self._small:
                self._no_small.set()

    async def yield_to_small(self, limit: ConcurrencyLimit) -> None:
        """Wait until no small plan runs or ran just now, or until this plan has waited enough."""
        if not limit.is_large or limit.yield_seconds_left <= 0 or self._yielding >= MAX_YIELDING:
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        self._yielding += 1
        try:
            async with asyncio.timeout(limit.yield_seconds_left):
                await self._until_no_small()
        except TimeoutError:
            limit.yield_seconds_left = 0.0
        else:
            limit.yield_seconds_left -= clock() - began
        finally:
            self._yielding -= 1

    async def _until_no_small(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._small or clock() < self._linger_until:
            if self._small:
                await self._no_small.wait()
            else:
                await asyncio.sleep(self._linger_until - clock())
