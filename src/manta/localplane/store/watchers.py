"""Watchers: one queue per open watch, filled by the store, emptied by a stream.

The changes in it are those of the shelf's history, so that a queue costs nothing of its own. A watcher
that is behind the history is ended, and says so: its client lists again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from manta.localplane.store.objects import Change

QUEUE_LIMIT = 20_000


class Watcher:
    """Changes of one shelf after one revision. `closed` means: no more will come."""

    def __init__(self, shelf: str, since: int, backlog: Sequence[Change] = ()) -> None:
        self.shelf = shelf
        self.since = since
        self.closed = False
        self.lost = False
        """Changes were dropped that nobody has taken: the client must list again."""
        self._queue: deque[Change] = deque(backlog)
        self._wake: asyncio.Future[bool] | None = None

    def offer(self, change: Change) -> None:
        if self.closed or change.revision <= self.since:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._lose()
            return
        self._queue.append(change)
        self._ring()

    def forgotten(self, revision: int) -> None:
        """The history begins after this revision now."""
        if self._queue and self._queue[0].revision <= revision:
            self._lose()

    def _lose(self) -> None:
        self._queue.clear()
        self.lost = True
        self.close()

    def close(self) -> None:
        self.closed = True
        self._ring()

    @property
    def empty(self) -> bool:
        return not self._queue

    def take(self, size: int | None = None) -> list[Change]:
        """The oldest changes, together of about `size` bytes, but at least one; all without it."""
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
        """Wait for a change or the end of the watch. False: the time has passed, nothing came."""
        if self._queue or self.closed:
            return True
        loop = asyncio.get_running_loop()
        wake: asyncio.Future[bool] = loop.create_future()
        self._wake = wake
        timer = None if timeout is None else loop.call_later(timeout, self._late, wake)
        try:
            return await wake
        finally:
            self._wake = None
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _late(wake: asyncio.Future[bool]) -> None:
        if not wake.done():
            wake.set_result(False)

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(True)
