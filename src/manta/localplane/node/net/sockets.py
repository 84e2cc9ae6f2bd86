"""Connections and listeners on the Pod network.

For root that is the machine's own network namespace. For an unprivileged user it is a namespace that this
process is not in: the launcher creates the socket there and passes it to this process.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from manta.localplane.node.net.relay import Streams
from manta.localplane.node.sandbox.launcher import Launcher


class PodSockets:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._inside = launcher.mode == "user"

    async def _make(self, kind: int) -> socket.socket:
        if self._inside:
            made = await self._launcher.make_socket(socket.AF_INET, kind)
        else:
            made = socket.socket(socket.AF_INET, kind)
        made.setblocking(False)
        return made

    async def connect(self, host: str, port: int, context: ssl.SSLContext | None = None) -> Streams:
        """Connect to an address on the Pod network."""
        return await _connected(await self._make(socket.SOCK_STREAM), host, port, context)

    async def connect_inside(self, pid: int, port: int) -> Streams:
        """Connect to localhost inside a Pod; `pid` is the Pod's init."""
        made = await self._launcher.make_socket(socket.AF_INET, socket.SOCK_STREAM, pid=pid)
        made.setblocking(False)
        return await _connected(made, "127.0.0.1", port)

    async def listener(self, host: str, port: int, device: str) -> socket.socket:
        """A listener for connections that arrive on `device`, the plane's bridge."""
        with _closed_on_error(await self._make(socket.SOCK_STREAM)) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not self._inside:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
            made.bind((host, port))
            made.listen(256)
        return made

    async def datagrams_to(self, host: str, port: int) -> socket.socket:
        """A UDP socket connected to an address on the Pod network."""
        with _closed_on_error(await self._make(socket.SOCK_DGRAM)) as made:
            made.connect((host, port))
        return made

    async def datagrams(self, host: str, port: int) -> socket.socket:
        with _closed_on_error(await self._make(socket.SOCK_DGRAM)) as made:
            made.bind((host, port))
        return made


def machine_listener(host: str, port: int) -> socket.socket:
    """A listener on an address of the machine itself."""
    listener = socket.create_server((host, port), backlog=256)
    listener.setblocking(False)
    return listener


async def serve_on(
    listener: socket.socket,
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> asyncio.Server:
    """Accept connections on `listener`; a cancellation closes it.

    `asyncio.start_server` suspends once after it listens: if it is cancelled there, nobody has the server.
    """
    server = await asyncio.start_server(serve, sock=listener, start_serving=False)
    try:
        await server.start_serving()
    except BaseException:
        server.close()
        raise
    return server


def machine_datagrams(host: str, port: int) -> socket.socket:
    with _closed_on_error(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as made:
        made.bind((host, port))
    made.setblocking(False)
    return made


@contextmanager
def _closed_on_error(made: socket.socket) -> Iterator[socket.socket]:
    try:
        yield made
    except BaseException:
        made.close()
        raise


async def _connected(
    made: socket.socket, host: str, port: int, context: ssl.SSLContext | None = None
) -> Streams:
    with _closed_on_error(made):
        await asyncio.get_running_loop().sock_connect(made, (host, port))
        name = host if context is not None else None
        return await asyncio.open_connection(sock=made, ssl=context, server_hostname=name)
