"""SPDY inside a WebSocket, as kubectl port-forward speaks it: messages become a stream of bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from manta.localplane.apiserver.streaming.pipe import Pipe
from manta.localplane.apiserver.streaming.websocket import WebSocket

BUFFER_LIMIT = 1024 * 1024


@contextlib.asynccontextmanager
async def tunnelled(socket: WebSocket) -> AsyncIterator[Pipe]:
    """A pipe whose bytes travel in the messages of a WebSocket."""
    reader = asyncio.StreamReader(limit=BUFFER_LIMIT)
    waiting: list[bytes] = []

    async def pump() -> None:
        async for message in socket.messages():
            reader.feed_data(message)
        reader.feed_eof()

    async def drain() -> None:
        data = b"".join(waiting)
        waiting.clear()
        if data:
            await socket.send(data)

    def close() -> None:
        reader.feed_eof()

    pumping = asyncio.create_task(pump())
    try:
        yield Pipe(reader, waiting.append, drain, close)
    finally:
        pumping.cancel()
        await asyncio.gather(pumping, return_exceptions=True)
        with contextlib.suppress(ConnectionError):
            await socket.close()
