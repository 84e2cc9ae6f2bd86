"""Polls dashboards, and reports when an answer changes.

Ray offers no watch. Polling happens here and not in a reconcile, so that a dashboard that hangs does not
occupy a worker: a reconcile reads the latest answer, and a changed answer enqueues the object. The
interval is short while answers change and grows while they stay the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PollInterval:
    """Seconds between two polls."""

    fast: float = 1.0
    """While the answer changes, or the caller expects a change."""
    slow: float = 30.0
    """While the answer stays the same. The interval doubles from fast to slow."""
    max_per_second: float = 100.0
    """Shared by all keys that expect a change, so that many that start at once do not overload us."""


@dataclass(slots=True)
class _Poll(Generic[A]):
    identity: Hashable
    fetch: Callable[[], Awaitable[A]]
    expecting_change: bool
    answer: A | None = None
    delay: float = 0.0
    failed: bool = False
    """The last fetch raised."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class DashboardPoller(Generic[K, A]):
    """One task per key; calls `changed(key)` on every new answer."""

    def __init__(
        self,
        changed: Callable[[K], None],
        interval: PollInterval | None = None,
        *,
        failed: Callable[[Exception], A | None],
    ) -> None:
        """`failed` counts a fetch that raised, and returns the answer in its place; None: the last answer
        stays."""
        self._changed = changed
        self._failed = failed
        self._interval = interval or PollInterval()
        self._polls: dict[K, _Poll[A]] = {}
        self._expecting: set[K] = set()

    def latest(
        self,
        key: K,
        identity: Hashable,
        fetch: Callable[[], Awaitable[A]],
        *,
        expecting_change: bool,
    ) -> A | None:
        """Return the latest answer, or None before the first one. Starts polling if necessary.

        `identity` names the subject (which dashboard, which job): another identity starts a new poll.
        `expecting_change` selects the fast interval.
        """
        poll = self._polls.get(key)
        if poll is None or poll.identity != identity:
            self.forget(key)
            poll = _Poll(identity, fetch, expecting_change, delay=self._interval.fast)
            self._polls[key] = poll
            self._expect(key, poll, expecting_change=expecting_change)
            poll.task = asyncio.create_task(self._keep_polling(key, poll))
            return None
        poll.fetch = fetch
        if expecting_change and not poll.expecting_change:
            poll.delay = self._interval.fast
            poll.wake.set()
        self._expect(key, poll, expecting_change=expecting_change)
        return poll.answer

    def _expect(self, key: K, poll: _Poll[A], *, expecting_change: bool) -> None:
        poll.expecting_change = expecting_change
        (self._expecting.add if expecting_change else self._expecting.discard)(key)

    def _next_delay(self, poll: _Poll[A]) -> float:
        expecting = len(self._expecting) if poll.expecting_change else 0
        return max(poll.delay, expecting / self._interval.max_per_second)

    def poll_now(self, key: K) -> None:
        """Poll at once, because the caller has just changed something on the far side."""
        if poll := self._polls.get(key):
            poll.delay = self._interval.fast
            poll.wake.set()

    def forget(self, key: K) -> None:
        """Stop polling this key."""
        poll = self._polls.pop(key, None)
        self._expecting.discard(key)
        if poll is not None and poll.task is not None:
            poll.task.cancel()

    async def run(self) -> None:
        """A service of the manager: stops all polling when the manager ends."""
        try:
            await asyncio.Event().wait()
        finally:
            self.close()

    def close(self) -> None:
        for key in list(self._polls):
            self.forget(key)

    def __len__(self) -> int:
        return len(self._polls)

    async def _keep_polling(self, key: K, poll: _Poll[A]) -> None:
        while True:
            poll.wake.clear()
            try:
                self._on_answer(key, poll, await poll.fetch())
            except Exception as error:  # noqa: BLE001  the task must go on polling
                self._on_error(key, poll, error)
            try:
                async with asyncio.timeout(self._next_delay(poll)):
                    await poll.wake.wait()
            except TimeoutError:
                continue

    def _on_answer(self, key: K, poll: _Poll[A], answer: A) -> None:
        recovered, poll.failed = poll.failed, False
        if answer != poll.answer:
            poll.answer = answer
            poll.delay = self._interval.fast
            self._changed(key)
        elif recovered:
            poll.delay = self._interval.fast
        elif not poll.expecting_change:
            poll.delay = min(poll.delay * 2, self._interval.slow)

    def _on_error(self, key: K, poll: _Poll[A], error: Exception) -> None:
        """Count all, log the first of consecutive errors, and poll at the slow interval."""
        answer = self._failed(error)
        if not poll.failed:
            log.error("polling %s failed and will be retried: %s", key, error, exc_info=error)
        poll.failed = True
        poll.delay = self._interval.slow
        if answer is not None and answer != poll.answer:
            poll.answer = answer
            self._changed(key)
