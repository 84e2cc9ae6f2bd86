"""How many bytes the server keeps in memory for its clients, and who waits when there is no space.

Whatever is queued for or from a client counts: request bodies, answers that are not sent yet, input
of exec, and forwarded data. A client is a user, or an address as long as nobody is authenticated. At
the limit the client's streams wait (back-pressure); a stream that has stood still while others wait is
ended. The limit of the whole server never stops a client that holds little.

Watch events are not counted here: watches share the history of the store, which is bounded itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

CLIENT_BYTES = 24 * 1024 * 1024
TOTAL_BYTES = 64 * 1024 * 1024
SMALL_BYTES = 256 * 1024
"""A client that holds less than this waits for nobody but itself."""
PATIENCE_SECONDS = 30.0
"""How long a stream waits for space before it is given up."""
STALLED_SECONDS = 3.0
"""A stream that has not moved for this long is ended when others need its space."""
_LOOK_SECONDS = 0.5


class BudgetError(TimeoutError):
    """The client holds as many bytes as it may, and has not let go of any in time."""


class _Client:
    __slots__ = ("holds", "name", "used")

    def __init__(self, name: str) -> None:
        self.name = name
        self.used = 0
        self.holds: set[Hold] = set()


class Budget:
    """The bytes of all clients. Every byte belongs to one `Hold`."""

    def __init__(
        self,
        client_bytes: int | None = None,
        total_bytes: int | None = None,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client_bytes = CLIENT_BYTES if client_bytes is None else client_bytes
        self.total_bytes = TOTAL_BYTES if total_bytes is None else total_bytes
        self.used = 0
        self.elapsed = elapsed
        self._clients: dict[str, _Client] = {}
        self._freed: asyncio.Event | None = None

    def open(self, client: str, evict: Callable[[], None]) -> Hold:
        """Begin to count for a stream of a client; `evict` ends that stream."""
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client(client)
        hold = Hold(self, known, evict)
        known.holds.add(hold)
        return hold

    def used_by(self, client: str) -> int:
        known = self._clients.get(client)
        return known.used if known is not None else 0

    # ── for holds ────────────────────────────────────────────────────────────────────────
    def fits(self, client: _Client, more: int) -> bool:
        if client.used and client.used + more > self.client_bytes:
            return False
        small = client.used + more <= SMALL_BYTES or not client.used
        return small or self.used + more <= self.total_bytes

    def count(self, client: _Client, more: int) -> None:
        client.used += more
        self.used += more
        if more < 0 and self._freed is not None:
            self._freed.set()
            self._freed = None

    def leave(self, hold: Hold, client: _Client) -> None:
        client.holds.discard(hold)
        if not client.holds:
            self._clients.pop(client.name, None)

    async def wait(self, client: _Client, more: int) -> None:
        deadline = self.elapsed() + PATIENCE_SECONDS
        while not self.fits(client, more):
            if self.elapsed() >= deadline:
                raise BudgetError(f"{client.name} holds {client.used} bytes on this server")
            self._end_a_stalled_stream(client, more)
            if self._freed is None:
                self._freed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._freed.wait()

    def _end_a_stalled_stream(self, client: _Client, more: int) -> None:
        """Of the client itself if it is at its limit, otherwise of the one that holds most."""
        if client.used + more <= self.client_bytes:
            client = max(self._clients.values(), key=lambda one: one.used)
        before = self.elapsed() - STALLED_SECONDS
        stalled = [hold for hold in client.holds if hold.bytes and hold.moved < before]
        if stalled:
            min(stalled, key=lambda hold: hold.moved).evict()


class Hold:
    """The bytes that one stream of a client keeps in memory."""

    __slots__ = ("_budget", "_client", "bytes", "evict", "moved")

    def __init__(self, budget: Budget, client: _Client, evict: Callable[[], None]) -> None:
        self._budget = budget
        self._client = client
        self.evict = evict
        self.bytes = 0
        self.moved = budget.elapsed()
        """When bytes came or went for the last time."""

    @property
    def client(self) -> str:
        return self._client.name

    def add(self, size: int) -> None:
        """Count bytes that are in memory already, or (negative) no longer."""
        self.bytes += size
        self.moved = self._budget.elapsed()
        self._budget.count(self._client, size)

    def set(self, size: int) -> None:
        if size != self.bytes:
            self.add(size - self.bytes)

    async def space(self, size: int = 0) -> None:
        """Return when the client may hold so many bytes more. Raises BudgetError."""
        if not self._budget.fits(self._client, size):
            await self._budget.wait(self._client, size)

    def close(self) -> None:
        self.set(0)
        self._budget.leave(self, self._client)


def unlimited() -> Hold:
    """For streams that end in this process, and for tests."""
    return Budget(2**62, 2**62).open("this process", lambda: None)
