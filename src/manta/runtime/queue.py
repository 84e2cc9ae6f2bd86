"""The work queue of a controller.

- A key is queued at most once, and never runs twice at the same time: if it is added while it runs, it runs
  again afterwards.
- Keys run in the order in which they were added. Keys with `priority` (work in progress) go before the
  others, but at most MAX_PRIORITY_RUN in a row.
- The earliest of several delays of a key wins. `get` drops the key's timer: the reconcile that follows
  sets a new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heapify, heappop, heappush
from random import Random
from typing import Generic, Protocol, TypeVar

from manta.runtime.backoff import KEY_BACKOFF, Backoff, Failures

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Done:
    """The reconcile succeeded. Run again when something changes, at the latest after `retry_in`."""

    retry_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The reconcile failed. Run again after the key's backoff, at the latest after `within`."""

    why: str
    within: timedelta | None = None
    """For objects with a timer, which must not wait for a long backoff."""
    error: Exception | None = field(default=None, compare=False)
    """The error of the status phase, counted and reported like one that ends the reconcile."""


MAX_PRIORITY_RUN = 32
"""The most keys with priority in a row while others wait."""


class QueueObserver(Protocol):
    """For metrics. Called synchronously: must be fast and must not raise."""

    def added(self, depth: int) -> None: ...
    def handed_out(self, waited: float, depth: int) -> None: ...
    def finished(self, worked: float) -> None: ...
    def retried(self) -> None: ...


class Closed(Exception):  # noqa: N818  not an error
    """Raised by `get` after `close`."""


class WorkQueue(Generic[K]):
    """Not thread-safe: belongs to one event loop."""

    def __init__(
        self,
        random: Random,
        *,
        backoff: Backoff = KEY_BACKOFF,
        observer: QueueObserver | None = None,
    ) -> None:
        self._ready: dict[K, None] = {}  # an ordered set
        self._priority: dict[K, None] = {}
        self._priority_run = 0
        self._prioritized: set[K] = set()  # queue these with priority
        self._wanted: dict[K, float] = {}  # queued, or running and added again -> since when
        self._running: dict[K, float] = {}  # -> since when
        self._due: dict[K, tuple[float, int]] = {}  # the valid timer of each key
        self._timers: list[tuple[float, int, K]] = []
        self._timer_count = 0
        self._timer_handle: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._failures: Failures[K] = Failures(backoff, random)
        self._observer = observer
        self._idle: asyncio.Future[None] | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    # ── adding ───────────────────────────────────────────────────────────────────────────

    def add(self, key: K, *, priority: bool = False) -> None:
        """Run `key` as soon as a worker is free."""
        if self._closed:
            return
        if key in self._wanted:
            if priority:
                self._prioritize(key)
            return
        self._wanted[key] = self._now()
        if priority:
            self._prioritized.add(key)
        if key not in self._running:
            self._enqueue(key)
        if self._observer:
            self._observer.added(self.depth)

    def add_after(self, key: K, seconds: float) -> None:
        """Run `key` after this delay, or sooner if an earlier delay is set."""
        if seconds <= 0:
            self.add(key)
            return
        if self._closed:
            return
        due = self._now() + seconds
        if key in self._due and self._due[key][0] <= due:
            return
        self._timer_count += 1
        self._due[key] = (due, self._timer_count)
        heappush(self._timers, (due, self._timer_count, key))
        self._drop_stale_timers()
        if self._timers[0][2] == key:
            self._schedule_next_timer()

    def retry(self, key: K) -> float:
        """Run `key` again after its backoff. Returns the seconds."""
        delay = self._failures.next_delay(key)
        self.add_after(key, delay)
        if self._observer:
            self._observer.retried()
        return delay

    def finish(self, key: K, result: Done | Retry) -> None:
        """Finish the reconcile of `key`, and schedule the next by its result."""
        if isinstance(result, Retry):
            self.retry(key)
            if result.within is not None:
                self.add_after(key, result.within.total_seconds())
        else:
            self._failures.forget(key)
            if result.retry_in is not None:
                self.add_after(key, result.retry_in.total_seconds())
        self.done(key)

    # ── workers ───────────────────────────────────────────────────────────────────────────

    async def get(self) -> K:
        """The next key, for which the caller must call `done` or `finish`. Raises Closed."""
        while not self.depth:
            if self._closed:
                raise Closed
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                self._pass_wakeup_on(getter)
                raise
        return self._take()

    def done(self, key: K) -> None:
        """The reconcile of `key` has ended; if the key was added meanwhile, it is queued again."""
        started = self._running.pop(key)
        if key in self._wanted:
            self._enqueue(key)
        if self._idle and not self._running:
            self._idle.set_result(None)
            self._idle = None
        if self._observer:
            self._observer.finished(self._now() - started)

    def failures(self, key: K) -> int:
        """How many reconciles of `key` failed in a row."""
        return self._failures.of(key)

    def close(self) -> None:
        """Accept and hand out no more keys. Running reconciles go on: see `idle`."""
        self._closed = True
        self._ready.clear()
        self._priority.clear()
        self._prioritized.clear()
        self._wanted.clear()
        if self._timer_handle:
            self._timer_handle.cancel()
        self._timers.clear()
        self._due.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    async def idle(self) -> None:
        """Return when no reconcile is running."""
        while self._running:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._ready) + len(self._priority)

    @property
    def delayed(self) -> int:
        """Keys that wait for a timer."""
        return len(self._due)

    @property
    def running(self) -> int:
        """Keys that are being reconciled."""
        return len(self._running)

    def longest_running(self) -> float:
        """Seconds since the oldest running reconcile began."""
        return self._now() - min(self._running.values()) if self._running else 0.0

    # ── internals ──────────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _enqueue(self, key: K) -> None:
        queue = self._priority if key in self._prioritized else self._ready
        self._prioritized.discard(key)
        queue[key] = None
        self._wake_one()

    def _prioritize(self, key: K) -> None:
        """Move a queued key to the priority queue; a running one goes there when it is done."""
        if key in self._running:
            self._prioritized.add(key)
        elif key in self._ready:
            del self._ready[key]
            self._priority[key] = None

    def _next_queue(self) -> dict[K, None]:
        """The priority queue, unless the others have waited long enough."""
        if self._priority and (not self._ready or self._priority_run < MAX_PRIORITY_RUN):
            self._priority_run += 1
            return self._priority
        self._priority_run = 0
        return self._ready

    def _take(self) -> K:
        queue = self._next_queue()
        key = next(iter(queue))
        del queue[key]
        now = self._now()
        waited = now - self._wanted.pop(key)
        self._running[key] = now
        self._due.pop(key, None)  # its heap entry is skipped later
        if self._observer:
            self._observer.handed_out(waited, self.depth)
        return key

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _pass_wakeup_on(self, getter: asyncio.Future[None]) -> None:
        """A cancelled worker passes its wake-up on to another."""
        if getter.done() and not getter.cancelled() and self.depth:
            self._wake_one()
        elif getter in self._getters:
            self._getters.remove(getter)

    def _is_current(self, timer: tuple[float, int, K]) -> bool:
        """Whether this is still the timer of its key."""
        return self._due.get(timer[2]) == timer[:2]

    def _drop_stale_timers(self) -> None:
        """Rebuild the heap when most of its timers are no longer valid."""
        if len(self._timers) > 2 * len(self._due) + 64:
            self._timers = [timer for timer in self._timers if self._is_current(timer)]
            heapify(self._timers)

    def _schedule_next_timer(self) -> None:
        if self._timer_handle:
            self._timer_handle.cancel()
        self._now()
        if self._timers and self._loop:
            self._timer_handle = self._loop.call_at(self._timers[0][0], self._fire_timers)

    def _fire_timers(self) -> None:
        """Add every key whose timer is due, and schedule the next."""
        self._timer_handle = None
        # The loop may fire a timer early by its clock's resolution.
        now = self._now() + 1e-6
        while self._timers and self._timers[0][0] <= now:
            timer = heappop(self._timers)
            if self._is_current(timer):
                del self._due[timer[2]]
                self.add(timer[2])
        while self._timers and not self._is_current(self._timers[0]):
            heappop(self._timers)
        self._schedule_next_timer()
