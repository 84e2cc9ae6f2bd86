"""SPDY inside a WebSocket, as kubectl port-forward uses it: messages become a stream of bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from manta.httpserver.upgrade import UpgradedConnection
from manta.localplane.apiserver.streaming.websocket import WebSocket


class _Messages:
    """Reads a message only when its bytes are needed: until then it stays with the client."""

    def __init__(self, socket: WebSocket) -> None:
        self._messages = socket.messages()
        self._rest = memoryview(b"")

    async def read(self, n: int = -1, /) -> bytes:
        while not self._rest:
            try:
                self._rest = memoryview(await anext(self._messages))
            except StopAsyncIteration:
                return b""
        size = n if n >= 0 else len(self._rest)
        data, self._rest = self._rest[:size], self._rest[size:]
        return bytes(data)

    async def close(self) -> None:
        self._rest = memoryview(b"")
        await self._messages.aclose()

    async def readexactly(self, n: int, /) -> bytes:
        data = bytearray()
        while len(data) < n:
            part = await self.read(n - len(data))
            if not part:
                raise asyncio.IncompleteReadError(bytes(data), n)
            data += part
        return bytes(data)


@contextlib.asynccontextmanager
async def spdy_in_websocket(
    socket: WebSocket, outer: UpgradedConnection
) -> AsyncIterator[UpgradedConnection]:
    """Yield a connection whose bytes travel in the messages of a WebSocket on `outer`."""
    waiting: list[bytes] = []

    async def drain() -> None:
        data = b"".join(waiting)
        waiting.clear()
        if data:
            await socket.send(data)

    messages = _Messages(socket)
    try:
        yield UpgradedConnection(
            messages, waiting.append, drain, outer.close, reservation=outer.reservation
        )
    finally:
        await messages.close()
        with contextlib.suppress(ConnectionError):
            await socket.close()
