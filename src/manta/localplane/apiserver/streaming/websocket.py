"""WebSockets (RFC 6455), the server's side. The protocol itself is the `websockets` library, without
sockets; there are no extensions, so nothing is ever inflated."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping

from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN, Protocol, Side
from websockets.server import ServerProtocol

from manta.localplane.apiserver.status_errors import Refusal
from manta.localplane.apiserver.streaming.pipe import Pipe, switching

MESSAGE_LIMIT = 16 * 1024 * 1024
_READ = 64 * 1024
_HANDSHAKE = ("connection", "upgrade", "sec-websocket-key", "sec-websocket-version")
_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.WARNING)  # the library notes every connection that ends


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
        self._protocol = Protocol(Side.SERVER, max_size=MESSAGE_LIMIT, logger=_QUIET)
        self._parts: list[bytes] = []
        self._text = False

    @classmethod
    def accept(cls, pipe: Pipe, headers: Mapping[str, str], protocol: str) -> WebSocket:
        """Raises a Refusal when the request is no handshake."""
        # The name of the sub-protocol is ours to choose: "SPDY/3.1+..." is no token of RFC 6455.
        asked = Headers((name, headers[name]) for name in _HANDSHAKE if name in headers)
        answer = ServerProtocol(logger=_QUIET).accept(Request("/", asked))
        if answer.status_code != 101:
            message = (answer.body or b"").decode(errors="replace").strip()
            raise Refusal(answer.status_code, "BadRequest", message)
        answered = list(answer.headers.raw_items())
        if protocol:
            answered.append(("Sec-WebSocket-Protocol", protocol))
        pipe.write(switching(answered))
        return cls(pipe)

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Whole messages, until the client closes, leaves, or breaks the protocol. What has come of
        the next one counts for the client."""
        hold, counted = self._pipe.hold, 0
        try:
            while data := await self._read():
                self._protocol.receive_data(data)
                counted += len(data)
                hold.add(len(data))
                messages = self._received()
                await self._flush()
                while messages:
                    yield messages.pop(0)
                hold.add(self._waiting() - counted)
                counted = self._waiting()
                await hold.space()
        finally:
            hold.add(-counted)
            # The protocol refers to itself: what it has kept would wait for the garbage collector.
            self._protocol.reader.buffer.clear()
            self._parts.clear()

    async def _read(self) -> bytes:
        """b"" when there is nothing more to hear."""
        if self._protocol.state is not OPEN:
            return b""
        try:
            return await self._pipe.reader.read(_READ)
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
        """The client has sent what makes no sense: say so, and hear no more."""
        if self._protocol.state is OPEN:
            self._protocol.fail(code, reason)
            await self._flush()

    async def _flush(self) -> None:
        """Send what the protocol has to say; an empty piece is the end of the connection."""
        for data in self._protocol.data_to_send():
            if data:
                self._pipe.write(data)
                await self._pipe.drain()


def _is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
