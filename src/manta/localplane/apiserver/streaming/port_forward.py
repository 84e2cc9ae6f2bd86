"""Port-forwarding: connections of a client, carried to ports inside a Pod.

Three wires carry it: SPDY streams in pairs, SPDY inside a WebSocket (kubectl), and numbered
WebSocket channels (the Python client).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable

from manta.localplane.apiserver.streaming.connector import ContainerUnavailable
from manta.localplane.apiserver.streaming.spdy import SpdyStream
from manta.localplane.apiserver.streaming.websocket import WebSocket

CHUNK = 64 * 1024
Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Forwarder:
    """Pairs the data and the error stream of each connection, and serves them."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._halves: dict[str, dict[str, SpdyStream]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, stream: SpdyStream) -> None:
        request = stream.headers.get("requestid", "")
        halves = self._halves.setdefault(request, {})
        halves[stream.headers.get("streamtype", "")] = stream
        if halves.keys() >= {"data", "error"}:
            del self._halves[request]
            task = asyncio.create_task(self._serve(halves["data"], halves["error"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, data: SpdyStream, error: SpdyStream) -> None:
        try:
            port = int(data.headers.get("port", ""))
            reader, writer = await self._dial(port)
        except (ValueError, OSError, ContainerUnavailable) as problem:
            with contextlib.suppress(ConnectionError):
                await error.write(f"an error occurred forwarding: {problem}".encode())
                await error.finish()
                await data.finish()
            return
        with contextlib.suppress(ConnectionError):
            await join(data.read, data.write, data.finish, reader, writer)
            await error.finish()

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def join(
    receive: Callable[[], Awaitable[bytes]],
    send: Callable[[bytes], Awaitable[None]],
    finish: Callable[[], Awaitable[None]],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Carry bytes both ways until both sides have ended."""

    async def inward() -> None:
        while chunk := await receive():
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def outward() -> None:
        while chunk := await reader.read(CHUNK):
            await send(chunk)
        await finish()

    inner = asyncio.create_task(inward())
    try:
        await outward()
    except ConnectionError:
        with contextlib.suppress(ConnectionError):
            await finish()
    finally:
        inner.cancel()
        await asyncio.gather(inner, return_exceptions=True)
        writer.close()


async def forward_channels(socket: WebSocket, ports: list[int], dial: Dial) -> None:
    """The older protocol: channel 2n carries data of port n, channel 2n+1 its errors."""
    inputs: list[asyncio.Queue[bytes]] = [asyncio.Queue(maxsize=64) for _ in ports]
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            await socket.send(bytes([channel]) + struct.pack("<H", port))
    tasks = [
        asyncio.create_task(_channel(socket, number, port, inputs[number], dial))
        for number, port in enumerate(ports)
    ]
    try:
        async for message in socket.messages():
            channel = message[0] if message else 255
            if channel % 2 == 0 and channel // 2 < len(ports) and len(message) > 1:
                await inputs[channel // 2].put(message[1:])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _channel(
    socket: WebSocket, number: int, port: int, inputs: asyncio.Queue[bytes], dial: Dial
) -> None:
    async def send(data: bytes) -> None:
        await socket.send(bytes([2 * number]) + data)

    async def finish() -> None:
        return

    try:
        reader, writer = await dial(port)
    except (OSError, ContainerUnavailable) as problem:
        text = f"an error occurred forwarding: {problem}".encode()
        with contextlib.suppress(ConnectionError):
            await socket.send(bytes([2 * number + 1]) + text)
        return
    with contextlib.suppress(ConnectionError):
        await join(inputs.get, send, finish, reader, writer)
        await socket.close()
