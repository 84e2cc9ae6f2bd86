"""Exec and attach over WebSockets: the first byte of each message is the channel."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from typing import Any

from websockets.frames import CloseCode

from manta.httpserver.budget import Reservation
from manta.localplane.apiserver.streaming.byte_queue import ByteQueue
from manta.localplane.apiserver.streaming.remote_command import error_payload, read_size
from manta.localplane.apiserver.streaming.websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "v5.base64.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
)


class WebSocketCommandStreams:
    """Reads messages into queues: `pump` must run beside `run_command`."""

    def __init__(self, socket: WebSocket, protocol: str, reservation: Reservation) -> None:
        self._socket = socket
        self._base64 = "base64" in protocol
        self._v4 = protocol.startswith(("v4", "v5"))
        self._stdin = ByteQueue(reservation)
        self._resize: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue(maxsize=16)

    async def pump(self) -> None:
        """Read messages until the client closes."""
        try:
            async with contextlib.aclosing(self._socket.messages()) as messages:
                async for message in messages:
                    if message:
                        await self._receive(message[0], memoryview(message)[1:])
                    del message  # free it while waiting for the next one
        except binascii.Error as error:
            await self._socket.fail(CloseCode.INVALID_DATA, f"a message is not base64: {error}")
        self._stdin.end()
        await self._resize.put(None)

    async def _receive(self, channel: int, data: bytes | memoryview) -> None:
        if self._base64:
            channel -= ord("0")
            data = base64.b64decode(data)
        if channel == STDIN:
            await self._stdin.put(data)
        elif channel == RESIZE:
            size = read_size(bytes(data))
            if size is not None:
                await self._resize.put(size)
        elif channel == CLOSE and bytes(data[:1]) == bytes([STDIN]):
            self._stdin.end()

    async def stdin(self) -> bytes:
        return await self._stdin.get()

    async def resize(self) -> tuple[int, int] | None:
        return await self._resize.get()

    async def stdout(self, data: bytes) -> None:
        await self._send(STDOUT, data)

    async def stderr(self, data: bytes) -> None:
        await self._send(STDERR, data)

    async def finish(self, status: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):
            if payload := error_payload(status, as_status=self._v4):
                await self._send(ERROR, payload)
            await self._socket.close()

    async def _send(self, channel: int, data: bytes) -> None:
        if self._base64:
            await self._socket.send_text(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send(bytes([channel]) + data)
