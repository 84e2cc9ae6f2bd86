"""Port-forwarding: connections of a client to ports of a Pod.

Clients use pairs of SPDY streams, SPDY inside a WebSocket (kubectl), or numbered WebSocket channels
(the Python client).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable

from manta.httpserver.budget import Reservation
from manta.localplane.apiserver.streaming.byte_queue import ByteQueue
from manta.localplane.apiserver.streaming.connector import ContainerUnavailable
from manta.localplane.apiserver.streaming.spdy import SpdyStream
from manta.localplane.apiserver.streaming.websocket import WebSocket

CHUNK_BYTES = 64 * 1024
PORTS_LIMIT = 127
"""Ports of one connection with numbered channels: a channel is one byte, and 255 means close."""
Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Forwarder:
    """Pairs the data and the error stream of each forwarded connection, and serves them."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._halves: dict[str, dict[str, SpdyStream]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, stream: SpdyStream) -> None:
        request = stream.headers.get("requestid", "")
        replaced = self._halves.get(request, {}).get(stream.headers.get("streamtype", ""))
        if replaced is not None:
            await replaced.reset()
        halves = self._halves.setdefault(request, {})
        halves[stream.headers.get("streamtype", "")] = stream
        if halves.keys() >= {"data", "error"}:
            del self._halves[request]
            task = asyncio.create_task(self._serve_and_close(halves["data"], halves["error"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve_and_close(self, data: SpdyStream, error: SpdyStream) -> None:
        try:
            await self._serve(data, error)
        finally:
            data.close()
            error.close()

    async def _serve(self, data: SpdyStream, error: SpdyStream) -> None:
        try:
            reader, writer = await self._dial(read_port(data.headers.get("port", "")))
        except (ValueError, OSError, ContainerUnavailable) as problem:
            with contextlib.suppress(ConnectionError):
                await error.write(f"an error occurred forwarding: {problem}".encode())
                await error.finish()
                await data.finish()
            return
        with contextlib.suppress(ConnectionError):
            await relay(data.read, data.write, data.finish, reader, writer)
            await error.finish()

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def read_port(text: str) -> int:
    """Return the port number. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536):
        raise ValueError(f"{text[:20]!r} is not a port")
    return int(text)


async def relay(
    receive: Callable[[], Awaitable[bytes]],
    send: Callable[[bytes], Awaitable[None]],
    finish: Callable[[], Awaitable[None]],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Copy bytes both ways until the Pod closes its side."""

    async def inward() -> None:
        while chunk := await receive():
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def outward() -> None:
        while chunk := await reader.read(CHUNK_BYTES):
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
        writer.close()  # before the next await, where this task may be cancelled again
        await asyncio.gather(inner, return_exceptions=True)


async def forward_channels(
    socket: WebSocket, ports: list[int], dial: Dial, reservation: Reservation
) -> None:
    """The older protocol: channel 2n carries data of port n, channel 2n+1 its errors."""
    inputs = [ByteQueue(reservation) for _ in ports]
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            await socket.send(bytes([channel]) + struct.pack("<H", port))
    tasks = [
        asyncio.create_task(_channel(socket, number, port, inputs[number], dial))
        for number, port in enumerate(ports)
    ]
    try:
        async with contextlib.aclosing(socket.messages()) as messages:
            async for message in messages:
                channel = message[0] if message else 255
                if channel % 2 == 0 and channel // 2 < len(ports) and len(message) > 1:
                    await inputs[channel // 2].put(memoryview(message)[1:])
                del message  # free it while waiting for the next one
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for queue in inputs:
            queue.close()


async def _channel(
    socket: WebSocket, number: int, port: int, inputs: ByteQueue, dial: Dial
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
        await relay(inputs.get, send, finish, reader, writer)
        await socket.close()
