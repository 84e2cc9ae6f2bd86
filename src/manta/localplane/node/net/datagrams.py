"""A UDP proxy for Services and host ports: each client gets its own socket to one of the targets.

A flow without packets for a minute is closed, as in a packet filter.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

Address = tuple[str, int]
Dial = Callable[[], Awaitable[socket.socket]]
"""Makes a socket that is connected to a target."""

_IDLE_TIMEOUT_SECONDS = 60.0
_MAX_CLIENTS = 4096


class DatagramProxy(asyncio.DatagramProtocol):
    """Made by `open`."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._transport: asyncio.DatagramTransport | None = None
        self._clients: dict[Address, _Flow] = {}

    @classmethod
    async def open(cls, listener: socket.socket, dial: Dial) -> DatagramProxy:
        loop = asyncio.get_running_loop()
        _, door = await loop.create_datagram_endpoint(lambda: cls(dial), sock=listener)
        return door

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Address) -> None:
        conversation = self._clients.get(addr)
        if conversation is None:
            if len(self._clients) >= _MAX_CLIENTS:
                return  # drop, as a packet filter with a full table does
            conversation = _Flow(self, addr)
            self._clients[addr] = conversation
            conversation.begin(self._dial)
        conversation.send(data)

    def error_received(self, exc: Exception) -> None:
        """The client has gone; there is nothing to do."""

    def answer(self, data: bytes, client: Address) -> None:
        if self._transport is not None:
            self._transport.sendto(data, client)

    def forget(self, client: Address) -> None:
        self._clients.pop(client, None)

    def close(self) -> None:
        for conversation in tuple(self._clients.values()):
            conversation.end()
        if self._transport is not None:
            self._transport.close()


class _Flow(asyncio.DatagramProtocol):
    def __init__(self, door: DatagramProxy, client: Address) -> None:
        self._door = door
        self._client = client
        self._transport: asyncio.DatagramTransport | None = None
        self._early: list[bytes] = []
        self._task: asyncio.Task[None] | None = None
        self._timer = self._start_idle_timer()

    def begin(self, dial: Dial) -> None:
        self._task = asyncio.create_task(self._connect(dial))

    async def _connect(self, dial: Dial) -> None:
        try:
            made = await dial()
        except OSError:
            self.end()
            return
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=made)
        self._transport = transport
        for data in self._early:
            transport.sendto(data)
        self._early.clear()

    def send(self, data: bytes) -> None:
        self._restart_idle_timer()
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.sendto(data)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._restart_idle_timer()
        self._door.answer(data, self._client)

    def error_received(self, exc: Exception) -> None:
        """The target refused; the client's next datagram may go to another one."""
        self.end()

    def _restart_idle_timer(self) -> None:
        self._timer.cancel()
        self._timer = self._start_idle_timer()

    def _start_idle_timer(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(_IDLE_TIMEOUT_SECONDS, self.end)

    def end(self) -> None:
        self._timer.cancel()
        self._door.forget(self._client)
        if self._task is not None and self._transport is None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.close()
