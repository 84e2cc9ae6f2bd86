"""One HTTP/1.1 connection, as thin as Python allows: a request out, its answer in.

It knows what an API server needs of a client and nothing else: no redirects, no cookies, no
compression. An operator spends much of its time here, and a general library several times as much.

Promise: a connection that cannot be trusted with another request, because its last answer is not
whole or it said something that nobody asked, is closed and not used again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from httptools import HttpResponseParser

SEVERAL = 0.02
"""Seconds. Of a stream that is busy, what comes within this time is read in one go: an event that
is waited for alone costs several times as much as one of a group."""

SMALL = 32 << 10
UNREAD = 1 << 20
"""Bytes that wait for a slow reader before the server has to."""

_NOT_IN_A_TARGET = re.compile(r"[\x00-\x20\x7f]")
_NOT_IN_A_HEADER = re.compile(r"[\r\n\x00]")


class Broken(ConnectionError):  # noqa: N818  # what is broken is the connection, not we
    """The answer is lost. Whether the server has done what it was asked is unknown."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Keys in lower case."""
    body: bytes


def encoded(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The request as it goes over the wire."""
    if _NOT_IN_A_TARGET.search(target):
        raise ValueError(f"{target!r} cannot stand on a request line: percent-encode it")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers.items():
        if _NOT_IN_A_HEADER.search(value):
            raise ValueError(f"the header {name} holds a line break")
        lines.append(f"{name}: {value}")
    if body is not None or method not in ("GET", "HEAD"):
        lines.append(f"content-length: {len(body or b'')}")
    lines.append("\r\n")
    return "\r\n".join(lines).encode() + (body or b"")


class Taker(Protocol):
    """Who takes in an answer, as it comes."""

    def began(self, status: int, headers: Mapping[str, str]) -> None: ...
    def came(self, data: bytes) -> None: ...
    def ended(self) -> None: ...
    def failed(self, error: Exception) -> None: ...


class Connection(asyncio.Protocol):
    """Asked for one thing at a time."""

    def __init__(self) -> None:
        from httptools import HttpResponseParser

        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser: HttpResponseParser = HttpResponseParser(self)
        self._taker: Taker | None = None
        self._headers: dict[str, str] = {}
        self._bodiless = False
        self._status = 0
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.idle_since = 0.0
        self.usable = False
        """It is open, and nothing is under way on it."""

    # ── asking ───────────────────────────────────────────────────────────────────────────
    async def ask(self, request: bytes, patience: float | None, limit: int | None = None) -> Answer:
        """The whole answer, of at most `limit` bytes. Raises Broken or TimeoutError, and then the
        connection is closed."""
        whole = _Whole(self._loop, limit)
        alarm = None if patience is None else self._loop.call_later(patience, whole.too_late)
        try:
            self._begin(request, whole)
            return await whole.future
        except BaseException:
            self.abort()  # also when cancelled: its answer would be taken for that of the next
            raise
        finally:
            if alarm is not None:
                alarm.cancel()

    async def open(self, request: bytes, patience: float | None) -> Flow:
        """An answer that goes on, as soon as its headers have come. Close it."""
        flow = Flow(self)
        try:
            async with asyncio.timeout(patience):
                self._begin(request, flow)
                await flow.opened
        except BaseException:
            self.abort()
            raise
        return flow

    def _begin(self, request: bytes, taker: Taker) -> None:
        if self.lost.done():
            raise Broken("the connection was closed before it was used")
        self.usable = False
        self._taker = taker
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
        """Let what the server says lie for a while."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # ── the transport's side ─────────────────────────────────────────────────────────────
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if self._taker is not None:
            # Without a length, the end of the connection is the end of the body.
            until_closed = self._headers.keys().isdisjoint(("content-length", "transfer-encoding"))
            if exc is None and until_closed and self._status:
                self._finish()
            else:
                self._fail(Broken(str(exc) if exc else "the server closed the connection"))
        if not self.lost.done():
            self.lost.set_result(None)

    def eof_received(self) -> None:
        self.usable = False

    def data_received(self, data: bytes) -> None:
        if self._taker is None:
            self.abort()  # nobody has asked: a farewell, or a server that is out of step
            return
        try:
            self._parser.feed_data(data)
        except Exception as error:  # noqa: BLE001  # the parser's own, and whatever it wraps
            self._fail(Broken(f"this is no HTTP answer: {error}"))
            self.abort()

    # ── the parser's side ────────────────────────────────────────────────────────────────
    def on_message_begin(self) -> None:
        self._headers = {}
        if self._taker is None:  # right behind an answer, one that nobody has asked for
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        if key == "warning" and key in self._headers:  # one line each: a list, says RFC 9110
            text = f"{self._headers[key]}, {text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._taker is None:
            return  # "continue", and the like: the answer itself is still to come
        self._status = status
        self._taker.began(status, self._headers)
        if self._bodiless:
            self._finish()
            self.close()  # the parser would wait for a body

    def on_body(self, data: bytes) -> None:
        if self._taker is not None:
            self._taker.came(data)

    def on_message_complete(self) -> None:
        if self._status and self._taker is not None:
            self.usable = self._parser.should_keep_alive()
            self._finish()

    def _finish(self) -> None:
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.ended()

    def _fail(self, error: Exception) -> None:
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.failed(error)


class _Whole:
    """Collects an answer."""

    __slots__ = ("_headers", "_left", "_limit", "_parts", "_status", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int | None) -> None:
        self._limit = limit
        self._left = sys.maxsize if limit is None else limit
        self.future: asyncio.Future[Answer] = loop.create_future()
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._parts: list[bytes] = []

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, headers

    def came(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._parts.clear()
            self.failed(Broken(f"the answer has more than {self._limit} bytes"))
        else:
            self._parts.append(data)

    def ended(self) -> None:
        if not self.future.done():
            self.future.set_result(Answer(self._status, self._headers, b"".join(self._parts)))

    def failed(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def too_late(self) -> None:
        self.failed(TimeoutError())


class Flow:
    """Hands on an answer in pieces. A slow reader makes the server wait."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self._connection = connection
        self._parts: list[bytes] = []
        self._unread = 0
        self._news: asyncio.Future[None] | None = None
        self._over = False
        self._error: Exception | None = None
        self._came_at = 0.0
        self._since_rest = 0
        self._rest: asyncio.TimerHandle | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            if self._parts:
                parts, self._parts, self._unread = self._parts, [], 0
                if self._rest is None:
                    self._connection.resume()
                yield parts[0] if len(parts) == 1 else b"".join(parts)
            elif self._error is not None:
                raise self._error
            elif self._over:
                return
            else:
                self._news = self._loop.create_future()
                await self._news

    def close(self) -> None:
        """What is still to come is never read, so the connection serves nobody else."""
        if self._rest is not None:
            self._rest.cancel()
        self._connection.abort()

    # ── the connection's side ────────────────────────────────────────────────────────────
    def began(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        if not self.opened.done():
            self.opened.set_result(None)

    def came(self, data: bytes) -> None:
        self._parts.append(data)
        self._unread += len(data)
        self._since_rest += len(data)
        if self._unread > UNREAD:
            self._connection.hold()
        elif self._rest is None and self._is_busy():
            self._connection.hold()
            self._rest = self._loop.call_later(SEVERAL, self._rested)
        self._tell()

    def ended(self) -> None:
        self._over = True
        self._tell()

    def failed(self, error: Exception) -> None:
        self._error = error
        if not self.opened.done():
            self.opened.set_exception(error)
        self._tell()

    def _is_busy(self) -> bool:
        """Small pieces, one soon after the other. A long list is read as fast as it comes."""
        now = self._loop.time()
        soon, self._came_at = now - self._came_at < 2 * SEVERAL, now
        if self._since_rest > SMALL:
            self._since_rest = 0
            return False
        return soon

    def _rested(self) -> None:
        self._rest = None
        self._since_rest = 0
        if self._unread <= UNREAD:
            self._connection.resume()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
