"""HTTP/1.1 in front of the server: keep-alive, chunked streams, limits, upgrades, TLS.

One task per connection answers its requests one after the other, so pipelined requests are
answered in order. Nothing grows without bound: headers, bodies, queued requests and unsent bytes
all have a limit, and a client that stops reading is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import gzip
import http
import logging
import ssl
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, unquote

import httptools

from manta.localplane.apiserver.messages import HttpRequest, HttpResponse, User
from manta.localplane.apiserver.status_errors import Refusal, bad_request, too_large, unauthorized
from manta.localplane.apiserver.streaming.pipe import Pipe

log = logging.getLogger(__name__)

BODY_LIMIT = 3 * 1024 * 1024
HEADER_LIMIT = 64 * 1024
PIPELINE_LIMIT = 16
"""Requests that may wait on one connection before reading pauses."""
UNSENT_LIMIT = 1024 * 1024
COMPRESSED_SIZE = 128 * 1024
"""Answers above this are compressed for clients that ask for it."""
IDLE_SECONDS = 240.0
REQUEST_SECONDS = 60.0
"""How long a client may take to send one request, and to read an answer."""
STREAM_SECONDS = 600.0
"""How long a client of a stream may read nothing: someone may be reading a log page by page."""


class Handler(Protocol):
    """What stands behind the sockets."""

    async def authenticate(self, request: HttpRequest, peer: dict[str, Any] | None) -> User | None:
        """Who asks; None: nobody known, and the path is not open to everyone."""

    async def handle(self, request: HttpRequest) -> HttpResponse: ...

    async def upgrade(self, request: HttpRequest, pipe: Pipe) -> HttpResponse | None:
        """Take the connection over, and return None when done; or refuse with an answer."""


class HttpServer:
    """Listens, and knows its connections so that it can let them go."""

    def __init__(self, handler: Handler, hosts: frozenset[str] = frozenset()) -> None:
        self.handler = handler
        self.hosts = hosts
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._all_gone: asyncio.Future[None] | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen; returns the port, which the system chooses when 0 is given."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), host, port, ssl=context, backlog=1024
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, patience: float = 2.0) -> None:
        """No new connections; the open ones may finish what they do, for a moment."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self.connections):
            connection.finish()
        await self._gone_within(patience)
        for connection in tuple(self.connections):
            connection.abort()
        await self._gone_within(1.0)
        await self._server.wait_closed()

    async def _gone_within(self, patience: float) -> None:
        if self.connections:
            self._all_gone = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._all_gone

    def left(self, connection: _Connection) -> None:
        self.connections.discard(connection)
        if not self.connections and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)


class _Connection(asyncio.Protocol):
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._parser = httptools.HttpRequestParser(self)
        self._requests: deque[_Incoming] = deque()
        self._incoming = _Incoming()
        self._wake: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._upgraded: asyncio.StreamReader | None = None
        self._secure = False
        self._closing = False
        self._streaming = False
        self._busy = False

    # ── the transport's side ─────────────────────────────────────────────────────────────
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # TLS has no half-closed connections; asyncio warns when one is asked for.
        self._secure = transport.get_extra_info("ssl_object") is not None
        self._transport.set_write_buffer_limits(high=UNSENT_LIMIT)
        self._server.connections.add(self)
        self._task = self._loop.create_task(self._serve())
        self._expect_within(REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)
        self._expect_within(None)
        self._closing = True
        if self._upgraded is not None:
            self._upgraded.feed_eof()
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError("the client went away"))
        if self._task is not None and self._upgraded is None:
            self._task.cancel()

    def eof_received(self) -> bool:
        """The client will send no more. What it asked for is still answered, but no stream is."""
        if self._upgraded is not None:
            self._upgraded.feed_eof()
            return not self._secure
        self._closing = True
        if self._streaming or not self._busy:
            self._transport.close()
        return not self._streaming and not self._secure

    def data_received(self, data: bytes) -> None:
        if self._upgraded is not None:
            self._upgraded.feed_data(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._begin_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            # The parser wraps what our own callbacks raise; then the fault is already told.
            if self._incoming.fault is None:
                self._incoming.fault = bad_request("the request is not HTTP/1.1")
            self._complete()

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def finish(self) -> None:
        """End after the request in hand; a connection without one ends now."""
        self._closing = True
        if not self._busy:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # ── the parser's side ────────────────────────────────────────────────────────────────
    def on_message_begin(self) -> None:
        self._incoming = _Incoming()
        self._expect_within(REQUEST_SECONDS)

    def on_url(self, url: bytes) -> None:
        self._incoming.url += url
        self._incoming.count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        incoming = self._incoming
        incoming.count(len(name) + len(value))
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        known = incoming.headers.get(key)
        incoming.headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        incoming = self._incoming
        incoming.method = self._parser.get_method().decode()
        incoming.keep_alive = self._parser.should_keep_alive()
        length = incoming.headers.get("content-length", "0")
        if length.isdigit() and int(length) > BODY_LIMIT:
            incoming.fault = too_large(BODY_LIMIT)
            raise incoming.fault
        if incoming.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        incoming = self._incoming
        incoming.size += len(body)
        if incoming.size > BODY_LIMIT:
            incoming.fault = too_large(BODY_LIMIT)
            raise incoming.fault
        incoming.body.append(body)

    def on_message_complete(self) -> None:
        if not self._parser.should_upgrade():
            self._complete()

    def _complete(self) -> None:
        self._expect_within(None)
        self._requests.append(self._incoming)
        if self._incoming.fault is not None:
            # Nothing after a malformed request can be trusted.
            self._closing = True
            self._transport.pause_reading()
        elif len(self._requests) >= PIPELINE_LIMIT:
            self._transport.pause_reading()
        self._ring()

    def _begin_upgrade(self, rest: bytes) -> None:
        self._expect_within(None)
        self._upgraded = asyncio.StreamReader(limit=UNSENT_LIMIT)
        self._upgraded.set_transport(self._transport)
        if rest:
            self._upgraded.feed_data(rest)
        self._incoming.upgrade = True
        self._requests.append(self._incoming)
        self._ring()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _expect_within(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            None if seconds is None else self._loop.call_later(seconds, self._transport.abort)
        )

    # ── answering ────────────────────────────────────────────────────────────────────────
    async def _serve(self) -> None:
        try:
            while not (self._closing and not self._requests):
                incoming = await self._next()
                self._busy = True
                keep = await self._answer(incoming)
                self._busy = False
                if not keep or (self._closing and not self._requests):
                    break
                self._transport.resume_reading()
                if not self._requests:
                    self._expect_within(IDLE_SECONDS)
        except (ConnectionError, TimeoutError):
            self._transport.abort()
        except Exception:
            log.exception("a connection was given up")
            self._transport.abort()
        finally:
            self._expect_within(None)
            self._transport.close()

    async def _next(self) -> _Incoming:
        while not self._requests:
            self._wake = self._loop.create_future()
            await self._wake
        return self._requests.popleft()

    async def _answer(self, incoming: _Incoming) -> bool:
        """Whether the connection may be used again."""
        if incoming.fault is not None:
            await self._send(incoming.fault.response(), incoming, keep=False)
            return False
        request = incoming.request()
        refusal = self._unwanted_host(request)
        if refusal is None:
            peer = self._transport.get_extra_info("peercert")
            user = await self._server.handler.authenticate(request, peer)
            if user is None:
                refusal = unauthorized()
            else:
                request = incoming.request(user)
        if refusal is not None:
            keep = incoming.keep_alive and not incoming.upgrade
            return await self._send(refusal.response(), incoming, keep=keep)
        if incoming.upgrade:
            return await self._hand_over(incoming, request)
        response = await self._server.handler.handle(request)
        return await self._send(response, incoming, keep=incoming.keep_alive)

    async def _hand_over(self, incoming: _Incoming, request: HttpRequest) -> bool:
        assert self._upgraded is not None
        write, close = self._transport.write, self._transport.close
        pipe = Pipe(self._upgraded, write, lambda: self._drain(None), close)
        response = await self._server.handler.upgrade(request, pipe)
        if response is not None:
            await self._send(response, incoming, keep=False)
        return False

    def _unwanted_host(self, request: HttpRequest) -> Refusal | None:
        """A page in a browser must not reach this server under a name that its author chose."""
        if not self._server.hosts:
            return None
        host = request.headers.get("host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name in self._server.hosts or name.startswith("127."):
            return None
        return Refusal(403, "Forbidden", f"the host {host!r} is not served here")

    async def _send(self, response: HttpResponse, incoming: _Incoming, *, keep: bool) -> bool:
        head_only = incoming.method == "HEAD"
        body = response.body
        if isinstance(body, bytes):
            if len(body) > COMPRESSED_SIZE and incoming.takes_gzip():
                body = await asyncio.to_thread(gzip.compress, body, 1)
                more = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
                response = replace(response, headers=response.headers + more)
            data = b"" if head_only else body
            self._transport.write(_head(response, len(body), keep=keep) + data)
            await self._drain()
            return keep
        self._streaming = True
        self._transport.write(_head(response, None, keep=keep))
        await self._stream(body)
        self._streaming = False
        return keep

    async def _stream(self, body: AsyncIterator[bytes]) -> None:
        async with contextlib.aclosing(body) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if chunk:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    await self._drain(STREAM_SECONDS)
        self._transport.write(b"0\r\n\r\n")
        await self._drain()

    async def _drain(self, patience: float | None = REQUEST_SECONDS) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the client went away")
        if self._drained is not None:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._drained)


class _Incoming:
    """A request while it arrives."""

    __slots__ = (
        "body",
        "fault",
        "head_size",
        "headers",
        "keep_alive",
        "method",
        "size",
        "upgrade",
        "url",
    )

    def __init__(self) -> None:
        self.method = "GET"
        self.url = b""
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.size = 0
        self.head_size = 0
        self.keep_alive = False
        self.upgrade = False
        self.fault: Refusal | None = None

    def takes_gzip(self) -> bool:
        """Only what is read is compressed, and only for who asks."""
        names = self.headers.get("accept-encoding", "").lower().split(",")
        return self.method == "GET" and any(
            name.partition(";")[0].strip() == "gzip" and "q=0" not in name.partition(";")[2]
            for name in names
        )

    def count(self, size: int) -> None:
        self.head_size += size
        if self.head_size > HEADER_LIMIT:
            self.fault = Refusal(431, "BadRequest", "the headers of the request are too large")
            raise self.fault

    def request(self, user: User | None = None) -> HttpRequest:
        path, _, query = self.url.decode("latin-1").partition("?")
        pairs = tuple(parse_qsl(query, keep_blank_values=True)) if query else ()
        text = unquote(path) if "%" in path else path
        if user is None:
            return HttpRequest(self.method, text, pairs, self.headers, b"".join(self.body))
        return HttpRequest(self.method, text, pairs, self.headers, b"".join(self.body), user)


_REASONS = {status.value: status.phrase for status in http.HTTPStatus}


def _head(response: HttpResponse, length: int | None, *, keep: bool) -> bytes:
    status = response.status
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}"]
    if length is None:
        lines.append("Transfer-Encoding: chunked")
    elif status not in (204, 304):
        lines.append(f"Content-Length: {length}")
    if response.content_type and status not in (204, 304):
        lines.append(f"Content-Type: {response.content_type}")
    names = {name.lower() for name, _ in response.headers}
    if "cache-control" not in names:
        lines.append("Cache-Control: no-cache, private")
    lines += [f"{name}: {value}" for name, value in response.headers]
    if not keep:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n" + _date_line() + b"\r\n"


def _date_line() -> bytes:
    return b"Date: " + email.utils.formatdate(usegmt=True).encode() + b"\r\n"
