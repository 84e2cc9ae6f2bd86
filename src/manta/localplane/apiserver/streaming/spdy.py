"""The server side of SPDY/3.1, as far as kubectl needs it.

The client opens streams with headers that say their purpose; both sides send data until they
finish. Header blocks are compressed with the dictionary of the protocol. Clients (Go's spdystream)
use no flow control: the server stops reading when the queue of a stream is full.

Streams, control frames and inflated headers have limits; data frames are read piece by piece.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from manta.httpserver.upgrade import UpgradedConnection
from manta.localplane.apiserver.streaming.byte_queue import ByteQueue

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 4, 6, 7, 8
_FIN: Final = 0x01
_PROTOCOL_ERROR, _REFUSED_STREAM, _CANCEL, _ALREADY_CLOSED = 1, 3, 5, 9
_GO_PROTOCOL_ERROR: Final = 1
_PIECE_BYTES: Final = 64 * 1024
CONTROL_LIMIT: Final = 64 * 1024
"""Bytes of a control frame."""
HEADERS_LIMIT: Final = 64 * 1024
"""Bytes of a header block when it is inflated."""
HEADERS_COUNT: Final = 64
STREAM_LIMIT: Final = 512
"""Open streams of one connection: port-forward needs two for each forwarded connection."""

_NAMES = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
]
_VALUES = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
    "Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 "
    "Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,"
    "deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_NAMES, *_VALUES))
    + _TAIL.encode()
)

_SHORTEST: Final = {_SYN_STREAM: 10, _RST_STREAM: 8, _HEADERS: 4, _PING: 4}


class SpdyError(ConnectionError):
    """The client broke the protocol."""


class SpdyStream:
    """One stream: data from the client by `read`, data to the client by `write`."""

    def __init__(self, session: SpdySession, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._session = session
        self._queue = ByteQueue(session.reservation)
        self.ended = False
        """Whether the client has sent its last data."""
        self.finished = False
        """Whether this side has sent its last data."""

    async def read(self, n: int = -1, /) -> bytes:
        """Return the next data; b"" at the end."""
        return await self._queue.get()

    async def write(self, data: bytes) -> None:
        if not self.finished:
            await self._session.send_data(self.number, data)

    async def finish(self) -> None:
        """Send the end of this side."""
        if not self.finished:
            self.finished = True
            self._session.remove_if_finished(self)
            await self._session.send_data(self.number, b"", fin=True)

    async def reset(self) -> None:
        self.finished = True
        self.close()
        await self._session.send_reset(self.number, _CANCEL)

    # ── for the session ──────────────────────────────────────────────────────────────────
    async def feed(self, data: bytes) -> None:
        await self._queue.put(data)

    def end(self) -> None:
        """The client has sent its last data."""
        self.ended = True
        self._queue.end()
        self._session.remove_if_finished(self)

    def close(self) -> None:
        """Drop all data: nobody reads this stream any more."""
        self._queue.close()
        self.end()


OnStream = Callable[[SpdyStream], Awaitable[None]]


class SpdySession:
    """Reads frames, and passes each new stream to `on_stream`."""

    def __init__(self, connection: UpgradedConnection, on_stream: OnStream) -> None:
        self._connection = connection
        self.reservation = connection.reservation
        self._on_stream = on_stream
        self._streams: dict[int, SpdyStream] = {}
        self._newest = 0
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def run(self) -> None:
        """Serve until the client closes the connection; then end all streams."""
        try:
            while await self._read_frame(await self._connection.reader.readexactly(8)):
                pass
        except (SpdyError, zlib.error):
            await self.go_away(_GO_PROTOCOL_ERROR)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            for stream in tuple(self._streams.values()):
                stream.end()

    async def _read_frame(self, head: bytes) -> bool:
        """Read the rest of one frame. Return False for GOAWAY."""
        flags, size = head[4], int.from_bytes(head[5:8])
        if not head[0] & 0x80:
            await self._data(int.from_bytes(head[:4]), flags, size)
            return True
        if size > CONTROL_LIMIT:
            raise SpdyError(f"a control frame of {size} bytes is too large")
        body = await self._connection.reader.readexactly(size)
        return await self._control(int.from_bytes(head[2:4]), flags, body)

    async def _control(self, kind: int, flags: int, body: bytes) -> bool:
        if len(body) < _SHORTEST.get(kind, 0):
            raise SpdyError(f"a control frame of kind {kind} is too short")
        if kind == _SYN_STREAM:
            await self._open(flags, body)
        elif kind == _RST_STREAM:
            self._end(int.from_bytes(body[:4]))
        elif kind == _HEADERS:
            self._read_headers(body[4:])
            if flags & _FIN:
                self._end(int.from_bytes(body[:4]))
        elif kind == _PING:
            await self._send_frame(_PING, 0, body)
        return kind != _GOAWAY

    async def _open(self, flags: int, body: bytes) -> None:
        number = int.from_bytes(body[:4]) & 0x7FFFFFFF
        headers = self._read_headers(body[10:])
        if not number & 1 or number <= self._newest:
            raise SpdyError(f"stream {number} is not a new one of the client")
        self._newest = number
        if len(self._streams) >= STREAM_LIMIT:
            await self.send_reset(number, _REFUSED_STREAM)
            return
        stream = SpdyStream(self, number, headers)
        self._streams[number] = stream
        reply = self._deflate.compress(struct.pack(">I", 0))
        reply += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send_frame(_SYN_REPLY, 0, struct.pack(">I", number) + reply)
        if flags & _FIN:
            stream.end()
        await self._on_stream(stream)

    def _read_headers(self, block: bytes) -> Mapping[str, str]:
        data = self._inflate.decompress(block, HEADERS_LIMIT)
        if self._inflate.unconsumed_tail or len(data) == HEADERS_LIMIT:
            raise SpdyError(f"a header block has more than {HEADERS_LIMIT} bytes")
        if len(data) < 4:
            raise SpdyError("a header block is too short")
        (count,) = struct.unpack_from(">I", data)
        if count > HEADERS_COUNT:
            raise SpdyError(f"a header block has {count} headers, more than {HEADERS_COUNT}")
        at, texts = 4, []
        for _ in range(2 * count):
            if at + 4 > len(data):
                raise SpdyError("a header block ends early")
            (size,) = struct.unpack_from(">I", data, at)
            texts.append(data[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        if at > len(data):
            raise SpdyError("a header block ends early")
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}

    async def _data(self, number: int, flags: int, size: int) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.ended:
            known = number <= self._newest
            await self.send_reset(number, _ALREADY_CLOSED if known else _PROTOCOL_ERROR)
        while size:
            await self.reservation.wait_for()
            piece = await self._connection.reader.read(min(size, _PIECE_BYTES))
            if not piece:
                raise ConnectionResetError(
                    "the client closed the connection in the middle of a frame"
                )
            size -= len(piece)
            if stream is not None and not stream.ended:
                await stream.feed(piece)
        if stream is not None and flags & _FIN:
            stream.end()

    def _end(self, number: int) -> None:
        stream = self._streams.get(number & 0x7FFFFFFF)
        if stream is not None:
            stream.end()

    def remove_if_finished(self, stream: SpdyStream) -> None:
        """Remove a stream that both sides have ended."""
        if stream.ended and stream.finished:
            self._streams.pop(stream.number, None)

    # ── sending ──────────────────────────────────────────────────────────────────────────
    async def send_data(self, number: int, data: bytes, *, fin: bool = False) -> None:
        head = struct.pack(">I", number) + bytes([_FIN if fin else 0]) + len(data).to_bytes(3)
        self._connection.write(head + data)
        await self._connection.drain()

    async def send_reset(self, number: int, status: int) -> None:
        await self._send_frame(_RST_STREAM, 0, struct.pack(">II", number, status))

    async def go_away(self, status: int = 0) -> None:
        with contextlib.suppress(ConnectionError):
            await self._send_frame(_GOAWAY, 0, struct.pack(">II", self._newest, status))

    async def _send_frame(self, kind: int, flags: int, body: bytes) -> None:
        self._connection.write(
            struct.pack(">HHB", 0x8003, kind, flags) + len(body).to_bytes(3) + body
        )
        await self._connection.drain()
