"""SPDY/3.1, the server's side, as far as Kubernetes' streaming needs it.

Streams are opened by the client with headers that say what they are for; both sides then send
data until they finish. Header blocks are compressed with a dictionary that the protocol fixes.
The clients (Go's spdystream) use no flow control, so none is kept here either: reading stops when
a stream's buffer is full, and the transport's own window does the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from manta.localplane.apiserver.streaming.pipe import Pipe

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 4, 6, 7, 8
_FIN: Final = 0x01
_PROTOCOL_ERROR, _CANCEL = 1, 5
_FRAME_LIMIT: Final = 16 * 1024 * 1024
BUFFER_LIMIT: Final = 256 * 1024

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


class SpdyError(ConnectionError):
    """The client broke the protocol."""


class SpdyStream:
    """One stream: data from the client in `reader`, data to the client by `write`."""

    def __init__(self, session: SpdySession, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._session = session
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._buffered = 0
        self._ended = False
        self._roomy = asyncio.Event()
        self._roomy.set()
        self.finished = False
        """Whether this side has sent its last data."""

    async def read(self, n: int = -1, /) -> bytes:
        """The next data; b"" at the end."""
        if self._ended and self._chunks.empty():
            return b""
        chunk = await self._chunks.get()
        self._buffered -= len(chunk)
        if self._buffered < BUFFER_LIMIT:
            self._roomy.set()
        return chunk

    async def write(self, data: bytes) -> None:
        if not self.finished:
            await self._session.send_data(self.number, data)

    async def finish(self) -> None:
        """This side sends no more."""
        if not self.finished:
            self.finished = True
            await self._session.send_data(self.number, b"", fin=True)

    async def reset(self) -> None:
        self.finished = True
        await self._session.send_reset(self.number, _CANCEL)

    async def room(self) -> None:
        await self._roomy.wait()

    def feed(self, data: bytes) -> None:
        if data:
            self._chunks.put_nowait(data)
            self._buffered += len(data)
            if self._buffered >= BUFFER_LIMIT:
                self._roomy.clear()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._chunks.put_nowait(b"")
            self._roomy.set()


OnStream = Callable[[SpdyStream], Awaitable[None]]


class SpdySession:
    """Reads frames, opens streams and hands each new one to `on_stream`."""

    def __init__(self, pipe: Pipe, on_stream: OnStream) -> None:
        self._pipe = pipe
        self._on_stream = on_stream
        self._streams: dict[int, SpdyStream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def run(self) -> None:
        """Until the client leaves. All streams have ended then."""
        try:
            while True:
                head = await self._pipe.reader.readexactly(8)
                flags, size = head[4], int.from_bytes(head[5:8])
                if size > _FRAME_LIMIT:
                    raise SpdyError("the frame is too large")
                body = await self._pipe.reader.readexactly(size)
                if head[0] & 0x80:
                    if not await self._control(int.from_bytes(head[2:4]), flags, body):
                        return
                else:
                    await self._data(int.from_bytes(head[:4]), flags, body)
        except (asyncio.IncompleteReadError, ConnectionError, zlib.error):
            return
        finally:
            for stream in self._streams.values():
                stream.end()

    async def _control(self, kind: int, flags: int, body: bytes) -> bool:
        if kind == _SYN_STREAM:
            await self._open(flags, body)
        elif kind == _RST_STREAM:
            self._end(int.from_bytes(body[:4]))
        elif kind == _HEADERS:
            self._read_headers(body[4:])
            if flags & _FIN:
                self._end(int.from_bytes(body[:4]))
        elif kind == _PING:
            await self._frame(_PING, 0, body)
        return kind != _GOAWAY

    async def _open(self, flags: int, body: bytes) -> None:
        number = int.from_bytes(body[:4]) & 0x7FFFFFFF
        headers = self._read_headers(body[10:])
        stream = SpdyStream(self, number, headers)
        self._streams[number] = stream
        reply = self._deflate.compress(struct.pack(">I", 0))
        reply += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._frame(_SYN_REPLY, 0, struct.pack(">I", number) + reply)
        if flags & _FIN:
            stream.end()
        await self._on_stream(stream)

    def _read_headers(self, block: bytes) -> Mapping[str, str]:
        data = self._inflate.decompress(block)
        if len(data) < 4:
            raise SpdyError("a header block is too short")
        (count,) = struct.unpack_from(">I", data)
        at, texts = 4, []
        for _ in range(2 * count):
            if at + 4 > len(data):
                raise SpdyError("a header block ends early")
            (size,) = struct.unpack_from(">I", data, at)
            texts.append(data[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            await self.send_reset(number, _PROTOCOL_ERROR)
            return
        await stream.room()
        stream.feed(body)
        if flags & _FIN:
            stream.end()

    def _end(self, number: int) -> None:
        stream = self._streams.get(number & 0x7FFFFFFF)
        if stream is not None:
            stream.end()

    # ── sending ──────────────────────────────────────────────────────────────────────────
    async def send_data(self, number: int, data: bytes, *, fin: bool = False) -> None:
        head = struct.pack(">I", number) + bytes([_FIN if fin else 0]) + len(data).to_bytes(3)
        self._pipe.write(head + data)
        await self._pipe.drain()

    async def send_reset(self, number: int, status: int) -> None:
        await self._frame(_RST_STREAM, 0, struct.pack(">II", number, status))

    async def goodbye(self) -> None:
        with contextlib.suppress(ConnectionError):
            last = max(self._streams, default=0)
            await self._frame(_GOAWAY, 0, struct.pack(">II", last, 0))

    async def _frame(self, kind: int, flags: int, body: bytes) -> None:
        self._pipe.write(struct.pack(">HHB", 0x8003, kind, flags) + len(body).to_bytes(3) + body)
        await self._pipe.drain()
