"""One queue per open watch, filled by the store and read by a stream.

Queues share the changes with the history of the resource, so they cost no memory of their own. A
watcher that falls behind the history is ended, and its client must list again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from manta.localplane.store.objects import Change

QUEUE_LIMIT = 20_000


class Watcher:
    """Changes of one resource after one revision. `closed`: there will be no more."""

    def __init__(self, resource: str, since: int, backlog: Sequence[Change] = ()) -> None:
        self.resource = resource
        self.since = since
        self.closed = False
        self.lost = False
        """Changes were dropped before they were read: the client must list again."""
        self._queue: deque[Change] = deque(backlog)
        self._wake: asyncio.Future[bool] | None = None

    def offer(self, change: Change) -> None:
        if self.closed or change.revision <= self.since:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._overflow()
            return
        self._queue.append(change)
        self._notify()

    def compacted(self, revision: int) -> None:
        """Called when the history was compacted up to this revision."""
        if self._queue and self._queue[0].revision <= revision:
            self._overflow()

    def _overflow(self) -> None:
        self._queue.clear()
        self.lost = True
        self.close()

    def close(self) -> None:
        self.closed = True
        self._notify()

    @property
    def empty(self) -> bool:
        return not self._queue

    def take(self, size: int | None = None) -> list[Change]:
        """Remove and return the oldest changes: about `size` bytes but at least one; None: all."""
        if size is None:
            taken = list(self._queue)
            self._queue.clear()
            return taken
        taken = []
        while self._queue and size > 0:
            size -= self._queue[0].size
            taken.append(self._queue.popleft())
        return taken

    async def ready(self, timeout: float | None) -> bool:  # noqa: ASYNC109 - a deadline is normal here
        """Wait for a change or the end of the watch. Return False after `timeout` seconds."""
        if self._queue or self.closed:
            return True
        loop = asyncio.get_running_loop()
        wake: asyncio.Future[bool] = loop.create_future()
        self._wake = wake
        timer = None if timeout is None else loop.call_later(timeout, self._timed_out, wake)
        try:
            return await wake
        finally:
            self._wake = None
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _timed_out(wake: asyncio.Future[bool]) -> None:
        if not wake.done():
            wake.set_result(False)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(True)
