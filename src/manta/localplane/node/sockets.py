"""Connections and listeners on the Pods' network, wherever that is.

As root it is the machine's own. For an ordinary user it is inside a namespace that this process is not
in: there the launcher makes the socket and passes it out, and a socket stays where it was made.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress

from manta.localplane.node.processes import Launcher
from manta.localplane.node.relay import Streams


class PodSockets:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._inside = launcher.way == "user"

    async def _make(self, kind: int) -> socket.socket:
        if self._inside:
            made = await self._launcher.make_socket(socket.AF_INET, kind)
        else:
            made = socket.socket(socket.AF_INET, kind)
        made.setblocking(False)
        return made

    async def connect(self, host: str, port: int, context: ssl.SSLContext | None = None) -> Streams:
        """To a Pod, or to anything else on the Pods' network."""
        return await _connected(await self._make(socket.SOCK_STREAM), host, port, context)

    async def connect_inside(self, pid: int, port: int) -> Streams:
        """To localhost as the processes of a Pod see it; `pid` is the Pod's init."""
        made = await self._launcher.make_socket(socket.AF_INET, socket.SOCK_STREAM, pid=pid)
        made.setblocking(False)
        return await _connected(made, "127.0.0.1", port)

    async def listener(self, host: str, port: int, device: str) -> socket.socket:
        """Accepts connections that come in by `device`, the plane's bridge."""
        made = await self._make(socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not self._inside:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
            made.bind((host, port))
            made.listen(256)
        except OSError:
            made.close()
            raise
        return made

    async def datagrams_to(self, host: str, port: int) -> socket.socket:
        """A datagram socket that speaks with one address on the Pods' network."""
        made = await self._make(socket.SOCK_DGRAM)
        try:
            made.connect((host, port))
        except OSError:
            made.close()
            raise
        return made

    async def datagrams(self, host: str, port: int) -> socket.socket:
        made = await self._make(socket.SOCK_DGRAM)
        try:
            made.bind((host, port))
        except OSError:
            made.close()
            raise
        return made


def machine_listener(host: str, port: int) -> socket.socket:
    """Accepts connections on an address of the machine itself."""
    listener = socket.create_server((host, port), backlog=256)
    listener.setblocking(False)
    return listener


def machine_datagrams(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


async def _connected(
    made: socket.socket, host: str, port: int, context: ssl.SSLContext | None = None
) -> Streams:
    try:
        await asyncio.get_running_loop().sock_connect(made, (host, port))
        name = host if context is not None else None
        return await asyncio.open_connection(sock=made, ssl=context, server_hostname=name)
    except BaseException:
        with suppress(OSError):
            made.close()
        raise
