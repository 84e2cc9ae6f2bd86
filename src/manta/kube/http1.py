"""One client connection of HTTP/1.1, without redirects, cookies or compression.

An operator spends much of its time here; a general HTTP library takes several times as long.

A connection whose last response is incomplete, or which sent data without a request, is closed and not used
again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from httptools import HttpResponseParser

BATCH_SECONDS = 0.02
"""Data of a busy stream is collected for this long and handed over at once: waking the reader for each
event costs several times as much."""

MAX_BATCH = 32 << 10
"""Bytes since the last pause. A stream with more is a long list, and is read as fast as it comes."""

MAX_UNREAD = 1 << 20
"""Bytes that are buffered for a slow reader before the connection stops reading."""

_NOT_IN_A_TARGET = re.compile(r"[\x00-\x20\x7f]")
_NOT_IN_A_HEADER = re.compile(r"[\r\n\x00]")


class ConnectionBroken(ConnectionError):  # noqa: N818
    """The response is lost. The server may have processed the request."""


class RawResponse(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Keys in lower case."""
    body: bytes


def encode_request(
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | None,
    repeated: Sequence[tuple[str, str]] = (),
) -> bytes:
    """The bytes of a request; the names of `repeated` headers may occur more than once.

    Raises ValueError for a line break in a header or in the target.
    """
    if _NOT_IN_A_TARGET.search(target):
        raise ValueError(f"{target!r} is not a valid request target: percent-encode it")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in (*headers.items(), *repeated):
        if _NOT_IN_A_HEADER.search(value):
            raise ValueError(f"the header {name} contains a line break")
        lines.append(f"{name}: {value}")
    if body is not None or method not in ("GET", "HEAD"):
        lines.append(f"content-length: {len(body or b'')}")
    lines.append("\r\n")
    return "\r\n".join(lines).encode() + (body or b"")


class ResponseHandler(Protocol):
    """Receives one response as it arrives."""

    def on_start(self, status: int, headers: Mapping[str, str]) -> None: ...
    def on_data(self, data: bytes) -> None: ...
    def on_end(self) -> None: ...
    def on_failure(self, error: Exception) -> None: ...


class Connection(asyncio.Protocol):
    """Carries one request at a time."""

    def __init__(self) -> None:
        from httptools import HttpResponseParser

        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser: HttpResponseParser = HttpResponseParser(self)
        self._handler: ResponseHandler | None = None
        self._headers: dict[str, str] = {}
        self._bodiless = False
        self._status = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.idle_since = 0.0
        self.usable = False
        """It is open and idle."""

    # ── requests ─────────────────────────────────────────────────────────────────────────
    async def send(
        self, request: bytes, timeout_s: float | None, limit: int | None = None
    ) -> RawResponse:
        """The whole response. Raises ConnectionBroken (also if it has more than `limit` bytes) or
        TimeoutError; the connection is then closed."""
        buffer = _BufferedResponse(self._loop, limit)
        alarm = None if timeout_s is None else self._loop.call_later(timeout_s, buffer.on_timeout)
        try:
            self._begin(request, buffer)
            return await buffer.future
        except BaseException:
            self.abort()  # also when cancelled: the next request would get this response
            raise
        finally:
            if alarm is not None:
                alarm.cancel()

    async def open(self, request: bytes, timeout_s: float | None) -> ResponseStream:
        """The response as soon as its headers have arrived; the caller closes it. Raises ConnectionBroken
        or TimeoutError."""
        stream = ResponseStream(self)
        try:
            async with asyncio.timeout(timeout_s):
                self._begin(request, stream)
                await stream.opened
        except BaseException:
            self.abort()
            raise
        return stream

    def _begin(self, request: bytes, handler: ResponseHandler) -> None:
        if self.closed.done():
            raise ConnectionBroken("the connection was closed before it was used")
        self.usable = False
        self._handler = handler
        self._status, self._headers = 0, {}
        self._bodiless = request.startswith(b"HEAD ")
        self._transport.write(request)

    def close(self) -> None:
        self.usable = False
        self._transport.close()

    def abort(self) -> None:
        self.usable = False
        self._transport.abort()

    def hold(self) -> None:
        """Stop reading for a while."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # ── callbacks of asyncio ─────────────────────────────────────────────────────────────
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if self._handler is not None:
            # Without a length, the end of the connection is the end of the body.
            until_closed = self._headers.keys().isdisjoint(("content-length", "transfer-encoding"))
            if exc is None and until_closed and self._status:
                self._finish()
            else:
                self._fail(
                    ConnectionBroken(str(exc) if exc else "the server closed the connection")
                )
        if not self.closed.done():
            self.closed.set_result(None)

    def eof_received(self) -> None:
        self.usable = False

    def data_received(self, data: bytes) -> None:
        if self._handler is None:
            self.abort()  # data without a request
            return
        try:
            self._parser.feed_data(data)
        except Exception as error:  # noqa: BLE001  # the parser's own, and whatever it wraps
            self._fail(ConnectionBroken(f"invalid HTTP response: {error}"))
            self.abort()

    # ── callbacks of the parser ──────────────────────────────────────────────────────────
    def on_message_begin(self) -> None:
        self._headers = {}
        if self._handler is None:  # a second response to one request
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        if key == "warning" and key in self._headers:  # RFC 9110: join repeated headers
            text = f"{self._headers[key]}, {text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._handler is None:
            return  # such as 100 Continue: the response itself is still to come
        self._status = status
        self._handler.on_start(status, self._headers)
        if self._bodiless:
            self._finish()
            self.close()  # the parser would wait for a body

    def on_body(self, data: bytes) -> None:
        if self._handler is not None:
            self._handler.on_data(data)

    def on_message_complete(self) -> None:
        if self._status and self._handler is not None:
            self.usable = self._parser.should_keep_alive()
            self._finish()

    def _finish(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.on_end()

    def _fail(self, error: Exception) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.on_failure(error)


class _BufferedResponse:
    """Collects a whole response."""

    __slots__ = ("_headers", "_left", "_limit", "_parts", "_status", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int | None) -> None:
        self._limit = limit
        self._left = sys.maxsize if limit is None else limit
        self.future: asyncio.Future[RawResponse] = loop.create_future()
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._parts: list[bytes] = []

    def on_start(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, headers

    def on_data(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._parts.clear()
            self.on_failure(ConnectionBroken(f"the response has more than {self._limit} bytes"))
        else:
            self._parts.append(data)

    def on_end(self) -> None:
        if not self.future.done():
            self.future.set_result(RawResponse(self._status, self._headers, b"".join(self._parts)))

    def on_failure(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def on_timeout(self) -> None:
        self.on_failure(TimeoutError())


class ResponseStream:
    """A response that is read in pieces. A slow reader makes the server wait."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self._connection = connection
        self._parts: list[bytes] = []
        self._unread = 0
        self._data: asyncio.Future[None] | None = None
        self._ended = False
        self._error: Exception | None = None
        self._last_data_at = 0.0
        self._since_pause = 0
        self._pause: asyncio.TimerHandle | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            if self._parts:
                parts, self._parts, self._unread = self._parts, [], 0
                if self._pause is None:
                    self._connection.resume()
                yield parts[0] if len(parts) == 1 else b"".join(parts)
            elif self._error is not None:
                raise self._error
            elif self._ended:
                return
            else:
                self._data = self._loop.create_future()
                await self._data

    def close(self) -> None:
        """Close the connection too: the rest of the response is still on it."""
        if self._pause is not None:
            self._pause.cancel()
        self._connection.abort()

    # ── callbacks of the connection ──────────────────────────────────────────────────────
    def on_start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        if not self.opened.done():
            self.opened.set_result(None)

    def on_data(self, data: bytes) -> None:
        self._parts.append(data)
        self._unread += len(data)
        self._since_pause += len(data)
        if self._unread > MAX_UNREAD:
            self._connection.hold()
        elif self._pause is None and self._is_busy():
            self._connection.hold()
            self._pause = self._loop.call_later(BATCH_SECONDS, self._end_pause)
        self._wake()

    def on_end(self) -> None:
        self._ended = True
        self._wake()

    def on_failure(self, error: Exception) -> None:
        self._error = error
        if not self.opened.done():
            self.opened.set_exception(error)
        self._wake()

    def _is_busy(self) -> bool:
        """Whether small pieces arrive in quick succession."""
        now = self._loop.time()
        soon, self._last_data_at = now - self._last_data_at < 2 * BATCH_SECONDS, now
        if self._since_pause > MAX_BATCH:
            self._since_pause = 0
            return False
        return soon

    def _end_pause(self) -> None:
        self._pause = None
        self._since_pause = 0
        if self._unread <= MAX_UNREAD:
            self._connection.resume()

    def _wake(self) -> None:
        if self._data is not None and not self._data.done():
            self._data.set_result(None)
