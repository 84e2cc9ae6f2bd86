"""WebSockets (RFC 6455), the server's side: handshake, frames, and nothing that clients of
Kubernetes do not use (no extensions)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from collections.abc import AsyncIterator, Mapping

from manta.localplane.apiserver.streaming.pipe import Pipe, switching

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUE, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
MESSAGE_LIMIT = 32 * 1024 * 1024


class WebSocketError(ConnectionError):
    """The client broke the protocol, or left."""


def offered_protocols(headers: Mapping[str, str]) -> list[str]:
    return [
        name.strip()
        for name in headers.get("sec-websocket-protocol", "").split(",")
        if name.strip()
    ]


def is_websocket(headers: Mapping[str, str]) -> bool:
    return headers.get("upgrade", "").lower() == "websocket"


class WebSocket:
    """One connection after the handshake."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._closed = False

    @classmethod
    def accept(cls, pipe: Pipe, headers: Mapping[str, str], protocol: str) -> WebSocket:
        key = headers.get("sec-websocket-key", "")
        digest = hashlib.sha1(f"{key}{_MAGIC}".encode(), usedforsecurity=False).digest()
        answer = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
        ]
        if protocol:
            answer.append(("Sec-WebSocket-Protocol", protocol))
        pipe.write(switching(answer))
        return cls(pipe)

    async def messages(self) -> AsyncIterator[bytes]:
        """Whole messages, until the client closes or leaves."""
        parts: list[bytes] = []
        size = 0
        while True:
            try:
                final, code, payload = await self._frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if code == _CLOSE:
                await self.close()
                return
            if code == _PING:
                await self._send(_PONG, payload)
                continue
            if code == _PONG:
                continue
            parts.append(payload)
            size += len(payload)
            if size > MESSAGE_LIMIT:
                raise WebSocketError("the message is too large")
            if final:
                yield b"".join(parts)
                parts, size = [], 0

    async def send(self, payload: bytes) -> None:
        await self._send(_BINARY, payload)

    async def send_text(self, text: str) -> None:
        await self._send(_TEXT, text.encode())

    async def close(self, code: int = 1000) -> None:
        if not self._closed:
            await self._send(_CLOSE, struct.pack(">H", code))
            self._closed = True

    async def _send(self, code: int, payload: bytes) -> None:
        if self._closed:
            return
        size = len(payload)
        if size < 126:
            head = struct.pack(">BB", 0x80 | code, size)
        elif size < 65536:
            head = struct.pack(">BBH", 0x80 | code, 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | code, 127, size)
        self._pipe.write(head + payload)
        await self._pipe.drain()

    async def _frame(self) -> tuple[bool, int, bytes]:
        read = self._pipe.reader.readexactly
        first, second = await read(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", await read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await read(8))
        if size > MESSAGE_LIMIT:
            raise WebSocketError("the frame is too large")
        if not second & 0x80:
            raise WebSocketError("a client must mask its frames")
        mask = await read(4)
        return bool(first & 0x80), first & 0x0F, unmasked(await read(size), mask)


def unmasked(payload: bytes, mask: bytes) -> bytes:
    """The payload without its mask, computed on whole numbers: byte by byte would be slow."""
    size = len(payload)
    if not size:
        return b""
    repeated = mask * (size // 4) + mask[: size % 4]
    return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)
