"""The server side of WebSockets (RFC 6455), on the sans-IO protocol of the `websockets` library.

There are no extensions, so nothing is ever inflated."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping

from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN, Protocol, Side
from websockets.server import ServerProtocol

from manta.httpserver.upgrade import UpgradedConnection, switching_protocols
from manta.localplane.apiserver.status_errors import StatusError

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_READ_BYTES = 64 * 1024
_HANDSHAKE = ("connection", "upgrade", "sec-websocket-key", "sec-websocket-version")
_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.WARNING)  # the library logs the end of every connection


def offered_protocols(headers: Mapping[str, str], name: str) -> list[str]:
    """Return the subprotocols that the header `name` lists."""
    return [part.strip() for part in headers.get(name, "").split(",") if part.strip()]


def is_websocket(headers: Mapping[str, str]) -> bool:
    return headers.get("upgrade", "").lower() == "websocket"


class WebSocket:
    """One connection after the handshake."""

    def __init__(self, connection: UpgradedConnection) -> None:
        self._connection = connection
        self._protocol = Protocol(Side.SERVER, max_size=MAX_MESSAGE_BYTES, logger=_QUIET)
        self._parts: list[bytes] = []
        self._text = False

    @classmethod
    def accept(
        cls, connection: UpgradedConnection, headers: Mapping[str, str], protocol: str
    ) -> WebSocket:
        """Answer the handshake. Raises StatusError if the request is not one."""
        # The library must not see the subprotocol: "SPDY/3.1+..." is not a token of RFC 6455.
        upgrade = Headers((name, headers[name]) for name in _HANDSHAKE if name in headers)
        answer = ServerProtocol(logger=_QUIET).accept(Request("/", upgrade))
        if answer.status_code != 101:
            message = (answer.body or b"").decode(errors="replace").strip()
            raise StatusError(answer.status_code, "BadRequest", message)
        answered = list(answer.headers.raw_items())
        if protocol:
            answered.append(("Sec-WebSocket-Protocol", protocol))
        connection.write(switching_protocols(answered))
        return cls(connection)

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Yield whole messages until the connection ends. Incomplete ones count for the client."""
        reservation, counted = self._connection.reservation, 0
        try:
            while data := await self._read():
                self._protocol.receive_data(data)
                counted += len(data)
                reservation.add(len(data))
                messages = self._received()
                await self._flush()
                while messages:
                    yield messages.pop(0)
                reservation.add(self._waiting() - counted)
                counted = self._waiting()
                await reservation.wait_for()
        finally:
            reservation.add(-counted)
            # The protocol is a reference cycle: free its buffer without the garbage collector.
            self._protocol.reader.buffer.clear()
            self._parts.clear()

    async def _read(self) -> bytes:
        """Return the next bytes; b"" at the end."""
        if self._protocol.state is not OPEN:
            return b""
        try:
            return await self._connection.reader.read(_READ_BYTES)
        except ConnectionError:
            return b""

    def _waiting(self) -> int:
        """Bytes of messages that are not complete."""
        return len(self._protocol.reader.buffer) + sum(map(len, self._parts))

    def _received(self) -> list[bytes]:
        messages = []
        for event in self._protocol.events_received():
            assert isinstance(event, Frame)
            if event.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                continue
            if event.opcode is not Opcode.CONT:
                self._text = event.opcode is Opcode.TEXT
            self._parts.append(bytes(event.data))
            if event.fin:
                message = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
                self._parts = []
                if self._text and not _is_utf8(message):
                    self._protocol.fail(CloseCode.INVALID_DATA, "a text message is not UTF-8")
                    break
                messages.append(message)
        return messages

    async def send(self, payload: bytes) -> None:
        if self._protocol.state is OPEN:
            self._protocol.send_binary(payload)
            await self._flush()

    async def send_text(self, text: str) -> None:
        if self._protocol.state is OPEN:
            self._protocol.send_text(text.encode())
            await self._flush()

    async def close(self, code: int = CloseCode.NORMAL_CLOSURE) -> None:
        if self._protocol.state is OPEN:
            self._protocol.send_close(code)
            await self._flush()

    async def fail(self, code: int, reason: str) -> None:
        """Close the connection because of an invalid message."""
        if self._protocol.state is OPEN:
            self._protocol.fail(code, reason)
            await self._flush()

    async def _flush(self) -> None:
        """Send the bytes that the protocol has queued."""
        for data in self._protocol.data_to_send():
            if data:
                self._connection.write(data)
                await self._connection.drain()


def _is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
