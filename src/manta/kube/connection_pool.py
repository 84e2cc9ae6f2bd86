"""Connections to one server: opened on demand, kept alive, limited in number.

Errors before a request is sent are `NotConnected`; later ones are `http1.ConnectionBroken` or TimeoutError.
So the caller knows whether the server can have received the request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import NamedTuple

from manta.kube.http1 import Connection, RawResponse, ResponseStream

CONNECT_TIMEOUT_SECONDS = 10.0
NEXT_ADDRESS_SECONDS = 2.0
"""Seconds to wait for one of several addresses before the next is tried."""
KEEP_ALIVE_SECONDS = 30.0
"""Shorter than the idle limit of API servers (90 s), so that the client closes idle connections first: a
write on a connection that the server is closing would be lost."""
CLOSE_TIMEOUT_SECONDS = 1.0
_CLOSED = "the client is closed"


class NotConnected(Exception):  # noqa: N818
    """The server cannot have received the request."""


class Endpoint(NamedTuple):
    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str = ""


class ConnectionPool:
    def __init__(self, endpoint: Endpoint, limit: int) -> None:
        self._endpoint = endpoint
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        """The last one was used last, and is used next."""
        self._all: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(
        self, request: bytes, timeout_s: float | None, limit: int | None = None
    ) -> RawResponse:
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        async with _Slot(self._slots, deadline):
            connection = self._take_idle() or await self._open_connection(deadline)
            try:
                left = None if deadline is None else deadline - loop.time()
                return await connection.send(request, left, limit)
            finally:
                self._return(connection)

    async def open(self, request: bytes, timeout_s: float | None) -> ResponseStream:
        """A stream on a connection of its own, which does not count against the limit: it may last for ever."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        connection = await self._open_connection(deadline)
        return await connection.open(request, None if deadline is None else deadline - loop.time())

    async def close(self) -> None:
        """Abort running requests and fail waiting ones."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in self._all:
            connection.close() if connection.usable else connection.abort()
        self._idle.clear()
        if gone := [connection.closed for connection in self._all]:
            await asyncio.wait(gone, timeout=CLOSE_TIMEOUT_SECONDS)
        for connection in tuple(self._all):
            connection.abort()

    # ── idle connections ──────────────────────────────────────────────────────────────────────────
    def _take_idle(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    def _return(self, connection: Connection) -> None:
        if not connection.usable:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(KEEP_ALIVE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - KEEP_ALIVE_SECONDS
        for connection in self._idle:
            if connection.idle_since <= oldest:
                connection.close()
        self._idle = [connection for connection in self._idle if connection.usable]
        rest = self._idle[0].idle_since - oldest if self._idle else 0.0
        self._sweeping = loop.call_later(rest, self._sweep) if self._idle else None

    # ── connecting ───────────────────────────────────────────────────────────────────────
    async def _open_connection(self, deadline: float | None) -> Connection:
        if self._closed:
            raise NotConnected(_CLOSED)
        limit = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
        try:
            async with asyncio.timeout_at(limit if deadline is None else min(limit, deadline)):
                connection = await self._connect()
        except (OSError, TimeoutError) as error:  # an ssl.SSLError is an OSError
            why = "connecting timed out" if isinstance(error, TimeoutError) else str(error)
            raise NotConnected(why) from error
        if self._closed:  # while connecting
            connection.abort()
            raise NotConnected(_CLOSED)
        self._all.add(connection)
        connection.closed.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    async def _connect(self) -> Connection:
        """Connect to the first of the server's addresses that answers."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM
        )
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        for address in addresses[:-1]:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(NEXT_ADDRESS_SECONDS):
                    return await self._connect_to(address)
        return await self._connect_to(addresses[-1])

    async def _connect_to(self, address: str) -> Connection:
        host, port, tls, name = self._endpoint
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, address, port, ssl=tls, server_hostname=(name or host) if tls else None
        )
        return connection


class _Slot:
    """One of the connections that may be in use at once. Raises NotConnected when none is free in time."""

    __slots__ = ("_deadline", "_slots")

    def __init__(self, slots: asyncio.Semaphore, deadline: float | None) -> None:
        self._slots = slots
        self._deadline = deadline

    async def __aenter__(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._slots.acquire()
        except TimeoutError as error:
            raise NotConnected("all connections are in use") from error

    async def __aexit__(self, *_: object) -> None:
        self._slots.release()
