"""Memory that the server keeps for its clients, counted by client and bounded.

Counted are request bodies, responses that are not sent yet, stdin of exec, and forwarded data. A
client is a user, or an address while nobody is authenticated. At its limit the streams of a client
wait (back-pressure); a stream that made no progress while others wait is ended. The limit of the
whole server never stops a client that holds little.

Watch events are not counted: watches share the history of the store, which is bounded itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

SMALL_BYTES = 256 * 1024
"""A client that holds less than this never waits for other clients."""
WAIT_SECONDS = 30.0
"""How long a stream waits for memory before it fails."""
STALLED_SECONDS = 3.0
"""A stream without progress for this long is ended when others need its memory."""
_POLL_SECONDS = 0.5


class BudgetError(TimeoutError):
    """The client holds as many bytes as it may, and did not release any in time."""


class _Client:
    __slots__ = ("name", "reservations", "used")

    def __init__(self, name: str) -> None:
        self.name = name
        self.used = 0
        self.reservations: set[Reservation] = set()


class MemoryBudget:
    """The bytes of all clients. Every byte belongs to one `Reservation`."""

    def __init__(
        self, client_bytes: int, total_bytes: int, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        self.client_bytes = client_bytes
        self.total_bytes = total_bytes
        self.used = 0
        self.elapsed = elapsed
        self._clients: dict[str, _Client] = {}
        self._freed: asyncio.Event | None = None

    def open(self, client: str, evict: Callable[[], None]) -> Reservation:
        """Return an empty reservation for one stream of `client`; `evict` ends that stream."""
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client(client)
        reservation = Reservation(self, known, evict)
        known.reservations.add(reservation)
        return reservation

    def used_by(self, client: str) -> int:
        known = self._clients.get(client)
        return known.used if known is not None else 0

    # ── for reservations ─────────────────────────────────────────────────────────────────
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

    def remove(self, reservation: Reservation, client: _Client) -> None:
        client.reservations.discard(reservation)
        if not client.reservations:
            self._clients.pop(client.name, None)

    async def wait(self, client: _Client, more: int) -> None:
        """Wait until the bytes fit. Raises BudgetError after `WAIT_SECONDS`."""
        deadline = self.elapsed() + WAIT_SECONDS
        while not self.fits(client, more):
            if self.elapsed() >= deadline:
                raise BudgetError(f"{client.name} holds {client.used} bytes on this server")
            self._end_stalled_stream(client, more)
            if self._freed is None:
                self._freed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._freed.wait()

    def _end_stalled_stream(self, client: _Client, more: int) -> None:
        """End a stream of the client itself if it is at its limit, otherwise of the client that holds most."""
        if client.used + more <= self.client_bytes:
            client = max(self._clients.values(), key=lambda one: one.used)
        before = self.elapsed() - STALLED_SECONDS
        stalled = [one for one in client.reservations if one.bytes and one.changed < before]
        if stalled:
            min(stalled, key=lambda one: one.changed).evict()


class Reservation:
    """The bytes that one stream of a client keeps in memory."""

    __slots__ = ("_budget", "_client", "bytes", "changed", "evict")

    def __init__(self, budget: MemoryBudget, client: _Client, evict: Callable[[], None]) -> None:
        self._budget = budget
        self._client = client
        self.evict = evict
        self.bytes = 0
        self.changed = budget.elapsed()
        """When the number of bytes changed for the last time."""

    @property
    def client(self) -> str:
        return self._client.name

    def add(self, size: int) -> None:
        """Count bytes that are in memory already, or (negative) no longer."""
        self.bytes += size
        self.changed = self._budget.elapsed()
        self._budget.count(self._client, size)

    def resize(self, size: int) -> None:
        if size != self.bytes:
            self.add(size - self.bytes)

    async def wait_for(self, size: int = 0) -> None:
        """Return when the client may hold `size` more bytes. Raises BudgetError after a while."""
        if not self._budget.fits(self._client, size):
            await self._budget.wait(self._client, size)

    def close(self) -> None:
        self.resize(0)
        self._budget.remove(self, self._client)


def unlimited() -> Reservation:
    """A reservation without limits, for streams inside this process and for tests."""
    return MemoryBudget(2**62, 2**62).open("this process", lambda: None)
