"""The server: listens, hands requests to a `Handler`, and closes its connections when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import cast

from manta.httpserver.address import Address
from manta.httpserver.budget import MemoryBudget
from manta.httpserver.connection import UNREAD_LIMIT, Connection
from manta.httpserver.connection_table import ConnectionTable
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits


class HttpServer:
    def __init__(
        self, handler: Handler, hosts: frozenset[str] = frozenset(), limits: Limits | None = None
    ) -> None:
        """`hosts`: names accepted in the Host header beside loopback addresses; none: any name."""
        self.handler = handler
        self.hosts = hosts
        self.limits = limits or Limits()
        self.budget = MemoryBudget(self.limits.client_bytes, self.limits.total_bytes)
        self.connections = ConnectionTable(self.limits)
        self._server: asyncio.Server | None = None
        self._all_closed: asyncio.Future[None] | None = None

    async def start(
        self, host: str | None, port: int, context: ssl.SSLContext | None = None
    ) -> int:
        """Listen, and return the port: a free one for port 0. Raises OSError if it is taken."""
        timeout = self.limits.anonymous_request_seconds if context is not None else None
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self),
            host,
            port,
            ssl=context,
            backlog=1024,
            ssl_handshake_timeout=timeout,
            start_serving=False,
        )
        return await self._serve(self._server)

    async def start_on(self, listener: socket.socket) -> int:
        """Listen on a socket that is bound already, for example in another network namespace."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), sock=listener, backlog=128, start_serving=False
        )
        return await self._serve(self._server)

    @staticmethod
    async def _serve(server: asyncio.Server) -> int:
        for one in server.sockets:
            # Connections inherit it: the kernel buffers little for a connection that is not read.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_LIMIT)
        await server.start_serving()
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace_seconds: float = 2.0) -> None:
        """Accept no more connections; let requests in progress finish for a moment."""
        if self._server is None:
            return
        self._server.close()
        for connection in self.connections.all():
            cast("Connection", connection).finish()
        await self._wait_closed(grace_seconds)
        for connection in self.connections.all():
            connection.abort()
        await self._wait_closed(1.0)
        await self._server.wait_closed()

    def abort(self) -> None:
        """Stop at once: requests in progress get no response."""
        if self._server is not None:
            self._server.close()
        for connection in self.connections.all():
            connection.abort()

    async def _wait_closed(self, seconds: float) -> None:
        if len(self.connections):
            self._all_closed = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._all_closed

    def closed(self, connection: Connection) -> None:
        self.connections.closed(connection)
        if not len(self.connections) and self._all_closed and not self._all_closed.done():
            self._all_closed.set_result(None)


class HttpService:
    """A server that runs until it is cancelled."""

    def __init__(
        self,
        address: Address,
        handler: Handler,
        limits: Limits | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._server = HttpServer(handler, limits=limits)
        self._context = context
        self.port = address.port
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if the port is taken."""
        self.port = await self._server.start(self._address.host, self._address.port, self._context)
        self.listening.set()
        try:
            await asyncio.Event().wait()
        finally:
            await self._server.stop()
