"""UDP for Services and host ports: every client has a socket of its own to one of the targets.

A conversation that is silent for a minute is forgotten, as a packet filter would.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

Address = tuple[str, int]
Dial = Callable[[], Awaitable[socket.socket]]
"""Makes a socket that is connected to a target."""

_SILENCE = 60.0
_MOST_CLIENTS = 4096


class DatagramDoor(asyncio.DatagramProtocol):
    """Made by `open`."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._transport: asyncio.DatagramTransport | None = None
        self._clients: dict[Address, _Conversation] = {}

    @classmethod
    async def open(cls, listener: socket.socket, dial: Dial) -> DatagramDoor:
        loop = asyncio.get_running_loop()
        _, door = await loop.create_datagram_endpoint(lambda: cls(dial), sock=listener)
        return door

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Address) -> None:
        conversation = self._clients.get(addr)
        if conversation is None:
            if len(self._clients) >= _MOST_CLIENTS:
                return  # as a full table of a packet filter: dropped
            conversation = _Conversation(self, addr)
            self._clients[addr] = conversation
            conversation.begin(self._dial)
        conversation.send(data)

    def error_received(self, exc: Exception) -> None:
        """A client that went away: nothing to be done."""

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


class _Conversation(asyncio.DatagramProtocol):
    def __init__(self, door: DatagramDoor, client: Address) -> None:
        self._door = door
        self._client = client
        self._transport: asyncio.DatagramTransport | None = None
        self._early: list[bytes] = []
        self._task: asyncio.Task[None] | None = None
        self._timer = self._count_silence()

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
        self._hear()
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.sendto(data)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._hear()
        self._door.answer(data, self._client)

    def error_received(self, exc: Exception) -> None:
        """The target refused: the next datagram may find another."""
        self.end()

    def _hear(self) -> None:
        self._timer.cancel()
        self._timer = self._count_silence()

    def _count_silence(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(_SILENCE, self.end)

    def end(self) -> None:
        self._timer.cancel()
        self._door.forget(self._client)
        if self._task is not None and self._transport is None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.close()
