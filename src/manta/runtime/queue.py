"""The work queue of a controller: which keys want a look, and when.

Promises: a key waits at most once however often it is added; it never runs twice at the same
time (what is added while it runs comes after it); keys are served in the order of their arrival,
so that no key can starve another; keys whose work is under way (`ahead`) go before the others, so
that what was begun is finished before more is begun, but never more than so many in a row; of
several delays the earliest counts; handing a key out drops its timer, because the round that
follows says itself when to look again.
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
    """The round is over. Look again when something changes, and at the latest after `retry_in`."""

    retry_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Something broke. Look again after this key's backoff, and at the latest after `within`."""

    why: str
    within: timedelta | None = None
    """For an object that has a timer of its own, which a long backoff must not outlast."""
    error: Exception | None = field(default=None, compare=False)
    """What the status phase raised: counted and shown on the object like an error that ends the reconcile."""


MOST_AHEAD = 32
"""So many keys may go before the others in a row while others wait."""


class QueueObserver(Protocol):
    """What metrics want to know. Called synchronously: must be quick and must not raise."""

    def added(self, depth: int) -> None: ...
    def handed_out(self, waited: float, depth: int) -> None: ...
    def finished(self, worked: float) -> None: ...
    def retried(self) -> None: ...


class Closed(Exception):  # noqa: N818  not an error: the queue was shut down
    """Raised by `get` after `close`."""


class WorkQueue(Generic[K]):
    """Belongs to one event loop; nothing here may be called from another thread."""

    def __init__(
        self,
        random: Random,
        *,
        backoff: Backoff = KEY_BACKOFF,
        observer: QueueObserver | None = None,
    ) -> None:
        self._ready: dict[K, None] = {}  # a line: in the order of arrival, and easy to leave
        self._ahead: dict[K, None] = {}
        self._in_a_row = 0
        self._hurried: set[K] = set()  # wanted, and to go ahead
        self._wanted: dict[K, float] = {}  # ready, or running and wanted again -> since when
        self._running: dict[K, float] = {}  # -> since when
        self._due: dict[K, tuple[float, int]] = {}  # the one timer of a key that counts
        self._timers: list[tuple[float, int, K]] = []
        self._timer_count = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._failures: Failures[K] = Failures(backoff, random)
        self._observer = observer
        self._idle: asyncio.Future[None] | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    # ── what wants a look ────────────────────────────────────────────────────────────────

    def add(self, key: K, *, ahead: bool = False) -> None:
        """Look at `key` as soon as a worker is free; `ahead`: before those that have not begun."""
        if self._closed:
            return
        if key in self._wanted:
            if ahead:
                self._hurry(key)
            return
        self._wanted[key] = self._now()
        if ahead:
            self._hurried.add(key)
        if key not in self._running:
            self._line_up(key)
        if self._observer:
            self._observer.added(self.depth)

    def add_after(self, key: K, seconds: float) -> None:
        """Look at `key` after this delay, or sooner if an earlier delay is already set."""
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
        self._sweep()
        if self._timers[0][2] == key:
            self._set_alarm()

    def retry(self, key: K) -> float:
        """Look at `key` again after its backoff; tells how many seconds that is."""
        delay = self._failures.next_delay(key)
        self.add_after(key, delay)
        if self._observer:
            self._observer.retried()
        return delay

    def settle(self, key: K, result: Done | Retry) -> None:
        """Finish the round of `key` and do what its result asks for."""
        if isinstance(result, Retry):
            self.retry(key)
            if result.within is not None:
                self.add_after(key, result.within.total_seconds())
        else:
            self._failures.forget(key)
            if result.retry_in is not None:
                self.add_after(key, result.retry_in.total_seconds())
        self.done(key)

    # ── the workers' side ────────────────────────────────────────────────────────────────

    async def get(self) -> K:
        """The next key. The caller must call `done` (or `settle`) when its round is over."""
        while not self.depth:
            if self._closed:
                raise Closed
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                self._pass_on(getter)
                raise
        return self._hand_out()

    def done(self, key: K) -> None:
        """The round of `key` is over; if it was added meanwhile, it queues up again."""
        started = self._running.pop(key)
        if key in self._wanted:
            self._line_up(key)
        if self._idle and not self._running:
            self._idle.set_result(None)
            self._idle = None
        if self._observer:
            self._observer.finished(self._now() - started)

    def failures(self, key: K) -> int:
        """How many rounds of `key` failed in a row."""
        return self._failures.of(key)

    def close(self) -> None:
        """Accept and hand out nothing more. Rounds that run are not touched: see `idle`."""
        self._closed = True
        self._ready.clear()
        self._ahead.clear()
        self._hurried.clear()
        self._wanted.clear()
        if self._alarm:
            self._alarm.cancel()
        self._timers.clear()
        self._due.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    async def idle(self) -> None:
        """Return when no round is running."""
        while self._running:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    @property
    def depth(self) -> int:
        """Keys that could run now, were a worker free."""
        return len(self._ready) + len(self._ahead)

    @property
    def delayed(self) -> int:
        """Keys that wait for a timer."""
        return len(self._due)

    @property
    def running(self) -> int:
        """Keys whose round is going on."""
        return len(self._running)

    def longest_running(self) -> float:
        """For how many seconds the oldest round has been going on."""
        return self._now() - min(self._running.values()) if self._running else 0.0

    # ── inside ───────────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _line_up(self, key: K) -> None:
        line = self._ahead if key in self._hurried else self._ready
        self._hurried.discard(key)
        line[key] = None
        self._wake_one()

    def _hurry(self, key: K) -> None:
        """A key that waits already changes lines; one that runs will line up ahead."""
        if key in self._running:
            self._hurried.add(key)
        elif key in self._ready:
            del self._ready[key]
            self._ahead[key] = None

    def _next_line(self) -> dict[K, None]:
        """Those ahead first, unless the others have waited for a few of them."""
        if self._ahead and (not self._ready or self._in_a_row < MOST_AHEAD):
            self._in_a_row += 1
            return self._ahead
        self._in_a_row = 0
        return self._ready

    def _hand_out(self) -> K:
        line = self._next_line()
        key = next(iter(line))
        del line[key]
        now = self._now()
        waited = now - self._wanted.pop(key)
        self._running[key] = now
        self._due.pop(key, None)  # its heap entry is skipped when it comes up
        if self._observer:
            self._observer.handed_out(waited, self.depth)
        return key

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _pass_on(self, getter: asyncio.Future[None]) -> None:
        """A cancelled worker must not swallow the wake-up that was meant for any worker."""
        if getter.done() and not getter.cancelled() and self.depth:
            self._wake_one()
        elif getter in self._getters:
            self._getters.remove(getter)

    def _counts(self, timer: tuple[float, int, K]) -> bool:
        """Whether this is still the timer of its key."""
        return self._due.get(timer[2]) == timer[:2]

    def _sweep(self) -> None:
        """Rebuild the heap when most of it are timers that a round has dropped since."""
        if len(self._timers) > 2 * len(self._due) + 64:
            self._timers = [timer for timer in self._timers if self._counts(timer)]
            heapify(self._timers)

    def _set_alarm(self) -> None:
        if self._alarm:
            self._alarm.cancel()
        self._now()
        if self._timers and self._loop:
            self._alarm = self._loop.call_at(self._timers[0][0], self._ring)

    def _ring(self) -> None:
        """Add every key whose time has come, and set the alarm for the next."""
        self._alarm = None
        # The loop may call a timer early by its clock's resolution.
        now = self._now() + 1e-6
        while self._timers and self._timers[0][0] <= now:
            timer = heappop(self._timers)
            if self._counts(timer):
                del self._due[timer[2]]
                self.add(timer[2])
        while self._timers and not self._counts(self._timers[0]):
            heappop(self._timers)
        self._set_alarm()
