"""Connections to one server: opened when needed, kept while they are used, never too many.

Promise: whatever fails before a request is on its way is `NotConnected`; whatever fails later is
`http1.Broken` or TimeoutError. So the caller knows what the server cannot have seen.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import NamedTuple

from manta.kube.http1 import Answer, Connection, Flow

CONNECT_TIMEOUT = 10.0
NEXT_ADDRESS = 2.0
"""An address of several that does not answer for this long is left for the next."""
KEEP_ALIVE = 30.0
"""Shorter than the idle limit of API servers (90 s), so that we, not they, close idle ones: a
write that meets a connection which the server is just closing is lost without a trace."""
FAREWELL = 1.0
_CLOSED = "its client was closed"


class NotConnected(Exception):  # noqa: N818  # a finding, told to whoever must judge it
    """The server cannot have seen the request."""


class Place(NamedTuple):
    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str = ""


class Connections:
    def __init__(self, place: Place, limit: int) -> None:
        self._place = place
        self._turns = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        """The one that was used last is last, and is used next."""
        self._all: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def ask(self, request: bytes, patience: float | None, limit: int | None = None) -> Answer:
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        async with _Turn(self._turns, until):
            connection = self._kept() or await self._connected(until)
            try:
                left = None if until is None else until - loop.time()
                return await connection.ask(request, left, limit)
            finally:
                self._keep(connection)

    async def open(self, request: bytes, patience: float | None) -> Flow:
        """On a connection of its own, which it takes no turn for: it may last for ever."""
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        connection = await self._connected(until)
        return await connection.open(request, None if until is None else until - loop.time())

    async def close(self) -> None:
        """What is under way is broken off, and what waits for its turn never leaves."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in self._all:
            connection.close() if connection.usable else connection.abort()
        self._idle.clear()
        if gone := [connection.lost for connection in self._all]:
            await asyncio.wait(gone, timeout=FAREWELL)
        for connection in tuple(self._all):
            connection.abort()

    # ── keeping ──────────────────────────────────────────────────────────────────────────
    def _kept(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    def _keep(self, connection: Connection) -> None:
        if not connection.usable:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(KEEP_ALIVE, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - KEEP_ALIVE
        for connection in self._idle:
            if connection.idle_since <= oldest:
                connection.close()
        self._idle = [connection for connection in self._idle if connection.usable]
        rest = self._idle[0].idle_since - oldest if self._idle else 0.0
        self._sweeping = loop.call_later(rest, self._sweep) if self._idle else None

    # ── connecting ───────────────────────────────────────────────────────────────────────
    async def _connected(self, until: float | None) -> Connection:
        if self._closed:
            raise NotConnected(_CLOSED)
        limit = asyncio.get_running_loop().time() + CONNECT_TIMEOUT
        try:
            async with asyncio.timeout_at(limit if until is None else min(limit, until)):
                connection = await self._connect()
        except (OSError, TimeoutError) as error:  # an ssl.SSLError is an OSError
            why = "it does not answer" if isinstance(error, TimeoutError) else str(error)
            raise NotConnected(why) from error
        if self._closed:  # in the meantime
            connection.abort()
            raise NotConnected(_CLOSED)
        self._all.add(connection)
        connection.lost.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    async def _connect(self) -> Connection:
        """To the first of the server's addresses that answers."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._place.host, self._place.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        for address in addresses[:-1]:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(NEXT_ADDRESS):
                    return await self._connect_to(address)
        return await self._connect_to(addresses[-1])

    async def _connect_to(self, address: str) -> Connection:
        host, port, tls, name = self._place
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, address, port, ssl=tls, server_hostname=(name or host) if tls else None
        )
        return connection


class _Turn:
    """A place among the connections that may be in use. Waiting for it ends in time."""

    __slots__ = ("_turns", "_until")

    def __init__(self, turns: asyncio.Semaphore, until: float | None) -> None:
        self._turns = turns
        self._until = until

    async def __aenter__(self) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        try:
            async with asyncio.timeout_at(self._until):
                await self._turns.acquire()
        except TimeoutError as error:
            raise NotConnected("all connections were in use all the time") from error

    async def __aexit__(self, *_: object) -> None:
        self._turns.release()
