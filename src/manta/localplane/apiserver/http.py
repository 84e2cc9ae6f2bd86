"""HTTP/1.1 in front of the server: keep-alive, chunked streams, limits, upgrades, TLS.

One task per connection answers its requests one after the other, so pipelined requests are
answered in order, and other connections get their turn in between. Nothing grows without bound:
heads, bodies and unsent bytes have limits, the bytes of each client too (`budget.py`), and so have
connections (`connections.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Protocol, cast

from manta.localplane.apiserver.budget import Budget, BudgetError
from manta.localplane.apiserver.connections import Connections
from manta.localplane.apiserver.incoming import BODY_LIMIT, Incoming, RequestParser
from manta.localplane.apiserver.messages import ANONYMOUS, HttpRequest, HttpResponse, User
from manta.localplane.apiserver.response_head import UnsafeHeaderError, date_header, head_bytes
from manta.localplane.apiserver.status_errors import (
    Refusal,
    internal,
    too_many_requests,
    unauthorized,
)
from manta.localplane.apiserver.streaming.pipe import Pipe

log = logging.getLogger(__name__)

UNSENT_LIMIT = 16 * 1024
"""Bytes in the buffer of a connection above which its writer waits."""
UNREAD_LIMIT = 64 * 1024
"""Bytes of an upgraded connection that wait for their reader; the kernel keeps as many."""
WRITE_BYTES = 64 * 1024
"""Written at a time: the TLS layer copies what it is given."""
COMPRESSED_SIZE = 128 * 1024
"""Answers above this are compressed for clients that ask for it."""
IDLE_SECONDS = 240.0
REQUEST_SECONDS = 60.0
"""How long a client may take to send one request, and to read an answer."""
UNKNOWN_SECONDS = 10.0
"""How long a client may take for the TLS handshake and to say who it is, and be idle before."""
STREAM_SECONDS = 600.0
"""How long a client of a stream may read nothing: someone may be reading a log page by page."""
LEFT_SECONDS = 5.0
"""How long what a client has sent over an upgraded connection is used after it has left."""
DISCARD_LIMIT = 64 * 1024
"""A refused request's body of this size is read, so that the connection can be used again."""


class Handler(Protocol):
    """What stands behind the sockets."""

    async def authenticate(self, request: HttpRequest, peer: dict[str, Any] | None) -> User | None:
        """Who asks; None: nobody known, and the path is not open to everyone."""

    async def handle(self, request: HttpRequest) -> HttpResponse: ...

    async def upgrade(self, request: HttpRequest, pipe: Pipe) -> HttpResponse | None:
        """Take the connection over, and return None when done; or refuse with an answer."""


class HttpServer:
    """Listens, and knows its connections so that it can let them go."""

    def __init__(
        self, handler: Handler, hosts: frozenset[str] = frozenset(), budget: Budget | None = None
    ) -> None:
        self.handler = handler
        self.hosts = hosts
        self.budget = budget or Budget()
        self.connections = Connections()
        self._server: asyncio.Server | None = None
        self._all_gone: asyncio.Future[None] | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen; returns the port, which the system chooses when 0 is given."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self),
            host,
            port,
            ssl=context,
            backlog=1024,
            ssl_handshake_timeout=UNKNOWN_SECONDS if context is not None else None,
            start_serving=False,
        )
        for one in self._server.sockets:
            # Connections inherit it: what a paused connection has received stays small.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_LIMIT)
        await self._server.start_serving()
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, patience: float = 2.0) -> None:
        """No new connections; the open ones may finish what they do, for a moment."""
        if self._server is None:
            return
        self._server.close()
        for connection in self.connections.all():
            cast("_Connection", connection).finish()
        await self._gone_within(patience)
        for connection in self.connections.all():
            connection.abort()
        await self._gone_within(1.0)
        await self._server.wait_closed()

    async def _gone_within(self, patience: float) -> None:
        if len(self.connections):
            self._all_gone = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._all_gone

    def left(self, connection: _Connection) -> None:
        self.connections.closed(connection)
        if not len(self.connections) and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)


class _Connection(asyncio.Protocol):
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._parser = RequestParser(self._begun, self._ring)
        self._wake: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._upgraded: asyncio.StreamReader | None = None
        self._address = "address "
        self._hold = server.budget.open(self._address, self.abort)
        self._known = False
        """Whether the last request was of an authenticated user."""
        self._secure = False
        self._closing = False
        self._streaming = False
        self._receiving = False
        self._busy = False

    # ── the transport's side ─────────────────────────────────────────────────────────────
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # TLS has no half-closed connections; asyncio warns when one is asked for.
        self._secure = transport.get_extra_info("ssl_object") is not None
        self._transport.set_write_buffer_limits(high=UNSENT_LIMIT)
        limit_reading = getattr(transport, "set_read_buffer_limits", None)
        if limit_reading is not None:  # only TLS keeps more than the socket does
            limit_reading(high=UNREAD_LIMIT)
        self._address = f"address {(transport.get_extra_info('peername') or ('',))[0]}"
        self._count_for(self._address)
        if not self._server.connections.opened(self, self._address):
            log.warning("refused a connection from %s: too many are open", self._address)
            self._transport.abort()
            return
        self._task = self._loop.create_task(self._serve())
        self._expect_within(UNKNOWN_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)
        self._expect_within(None)
        self._closing = True
        if self._upgraded is not None:
            self._upgraded.feed_eof()
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError("the client went away"))
        if self._task is None:
            self._hold.close()
        elif self._upgraded is None:
            self._task.cancel()
        else:
            # What was received is still used, but not for as long as nobody wants it.
            self._loop.call_later(LEFT_SECONDS, self._task.cancel)

    def eof_received(self) -> bool:
        """The client will send no more. What it asked for is still answered, but no stream is."""
        if self._upgraded is not None:
            self._upgraded.feed_eof()
            return not self._secure
        self._closing = True
        waits = not self._busy and not self._parser.has_requests()
        if self._streaming or self._receiving or waits:
            self._transport.close()
        return not self._streaming and not self._secure

    def data_received(self, data: bytes) -> None:
        if self._upgraded is not None:
            self._upgraded.feed_data(data)
            return
        self._parser.feed(data)
        if self._parser.upgraded is not None:
            self._upgraded = asyncio.StreamReader(limit=UNREAD_LIMIT)
            self._upgraded.set_transport(self._transport)
            self._upgraded.feed_data(self._parser.upgraded)
            return
        self._pace_reading()

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

    def _pace_reading(self) -> None:
        """Read on while the parser has use for it; otherwise the client waits."""
        if self._upgraded is not None:
            return
        if self._parser.wants_data:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _begun(self) -> None:
        """The first byte of a request is here. While another one is answered, time is no matter."""
        if not self._busy:
            self._expect_within(REQUEST_SECONDS if self._known else UNKNOWN_SECONDS)

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
            while (incoming := await self._next()) is not None:
                self._busy = True
                self._expect_within(None)
                keep = await self._answer(incoming)
                self._hold.set(0)
                self._busy = False
                if not keep:
                    break
                self._parser.parse()
                self._pace_reading()
                self._expect_next()
                await asyncio.sleep(0)  # a client with many requests takes turns with the others
        except (ConnectionError, TimeoutError):
            self._transport.abort()
        except Exception:
            log.exception("a connection was given up")
            self._transport.abort()
        finally:
            self._expect_within(None)
            self._hold.close()
            self._parser.close()
            self._task = None
            self._transport.close()

    async def _next(self) -> Incoming | None:
        """The next request; None when there will be none."""
        while not self._parser.has_requests():
            if self._closing:
                return None
            self._wake = self._loop.create_future()
            await self._wake
        incoming = self._parser.take()
        self._pace_reading()  # a client that leaves is noticed only while it is read from
        return incoming

    def _expect_next(self) -> None:
        if not self._known:
            self._expect_within(UNKNOWN_SECONDS)
        else:
            self._expect_within(REQUEST_SECONDS if self._parser.mid_head else IDLE_SECONDS)

    async def _answer(self, incoming: Incoming) -> bool:
        """Whether the connection may be used again."""
        try:
            request = await self._identified(incoming)
            await self._receive(incoming)
        except Refusal as refusal:
            keep = await self._discarded(incoming)
            return await self._send(refusal.response(), incoming, keep=keep)
        except BudgetError as error:
            answer = too_many_requests(f"too much is queued for this client: {error}").response()
            return await self._send(answer, incoming, keep=False)
        if incoming.upgrade:
            return await self._hand_over(incoming, request)
        request = replace(request, body=incoming.body())
        incoming.drop_body()
        response = await self._server.handler.handle(request)
        try:
            return await self._send(response, incoming, keep=incoming.keep_alive)
        except UnsafeHeaderError:
            log.exception("the answer to %s %r cannot be sent", request.method, request.path)
            failure = internal("the answer has a header that cannot be sent")
            return await self._send(failure.response(), incoming, keep=incoming.keep_alive)

    async def _identified(self, incoming: Incoming) -> HttpRequest:
        """The request without its body, and with its user. Raises a Refusal."""
        if incoming.fault is not None:
            raise incoming.fault
        request = incoming.request()
        self._check_host(request)
        peer = self._transport.get_extra_info("peercert")
        user = await self._server.handler.authenticate(request, peer)
        self._known = user is not None and user != ANONYMOUS
        client = f"user {user.name}" if user is not None and self._known else self._address
        self._count_for(client)
        if user is None:
            raise unauthorized()
        if self._known and not self._server.connections.authenticated(self, client):
            incoming.keep_alive = False
            raise too_many_requests("this user has too many connections")
        return replace(request, user=user, hold=self._hold)

    def _count_for(self, client: str) -> None:
        if self._hold.client != client:
            self._hold.close()
            self._hold = self._server.budget.open(client, self.abort)

    async def _receive(self, incoming: Incoming) -> None:
        """Read the body, within what the client may hold. Raises BudgetError, or a Refusal."""
        size = 0
        if not incoming.complete:
            size = BODY_LIMIT if incoming.length is None else incoming.length
        await self._hold.space(size)
        self._hold.set(size)
        if not incoming.complete:
            if incoming.expects_continue:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await self._read_body(incoming)
        if incoming.fault is not None:
            raise incoming.fault

    async def _read_body(self, incoming: Incoming) -> None:
        self._receiving = True
        self._parser.admit(incoming)
        self._pace_reading()
        async with asyncio.timeout(REQUEST_SECONDS):
            await incoming.received()
        self._receiving = False

    async def _discarded(self, incoming: Incoming) -> bool:
        """Read past a refused request; False: the connection ends with the answer instead."""
        if incoming.fault is not None or incoming.upgrade or not incoming.keep_alive:
            return False
        if not incoming.complete:
            left = incoming.left()
            if left is None or left > DISCARD_LIMIT or incoming.expects_continue:
                return False
            async with asyncio.timeout(UNKNOWN_SECONDS):
                await self._read_body(incoming)
        return incoming.fault is None

    async def _hand_over(self, incoming: Incoming, request: HttpRequest) -> bool:
        assert self._upgraded is not None
        written = False

        def write(data: bytes) -> None:
            nonlocal written
            written = True
            self._transport.write(data)

        hold = self._server.budget.open(self._hold.client, self.abort)
        pipe = Pipe(
            self._upgraded, write, lambda: self._drain(None), self._transport.close, hold=hold
        )
        try:
            response = await self._server.handler.upgrade(request, pipe)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            log.exception("%s %r failed", request.method, request.path)
            response = internal(f"{type(error).__name__}: {error}").response()
        finally:
            hold.close()
        if response is not None and not written:
            await self._send(response, incoming, keep=False)
        return False

    def _check_host(self, request: HttpRequest) -> None:
        """A page in a browser must not reach this server under a name that its author chose."""
        if not self._server.hosts:
            return
        host = request.headers.get("host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name.lower() not in self._server.hosts and not _is_loopback(name):
            raise Refusal(403, "Forbidden", f"the host {host!r} is not served here")

    # ── sending ──────────────────────────────────────────────────────────────────────────
    async def _send(self, response: HttpResponse, incoming: Incoming, *, keep: bool) -> bool:
        head_only = incoming.method == "HEAD"
        body = response.body
        if isinstance(body, bytes):
            if len(body) > COMPRESSED_SIZE and incoming.takes_gzip():
                body = await asyncio.to_thread(gzip.compress, body, 1)
                more = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
                response = replace(response, headers=response.headers + more)
            head = head_bytes(response.status, _headers(response, len(body), keep=keep))
            if head_only:
                body = b""
            self._hold.set(len(body))
            if len(body) < WRITE_BYTES:
                await self._write(head + body)
            else:
                await self._write(head, body)
            return keep
        async with contextlib.aclosing(body) as chunks:  # type: ignore[type-var]
            self._transport.write(head_bytes(response.status, _headers(response, None, keep=keep)))
            if not head_only:
                await self._stream(chunks)
        return keep

    async def _stream(self, chunks: AsyncIterator[bytes]) -> None:
        self._streaming = True
        self._hold.set(0)
        async for chunk in chunks:
            if not chunk:
                continue
            self._hold.set(len(chunk))
            if len(chunk) < WRITE_BYTES:
                await self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk), patience=STREAM_SECONDS)
            else:
                await self._write(b"%x\r\n" % len(chunk), chunk, b"\r\n", patience=STREAM_SECONDS)
            self._hold.set(0)
            await self._hold.space()
        await self._write(b"0\r\n\r\n")
        self._streaming = False

    async def _write(self, *parts: bytes, patience: float = REQUEST_SECONDS) -> None:
        for part in parts:
            view = memoryview(part) if len(part) > WRITE_BYTES else part
            for start in range(0, len(view), WRITE_BYTES):
                self._transport.write(view[start : start + WRITE_BYTES])
                await self._drain(patience)

    async def _drain(self, patience: float | None) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the client went away")
        if self._drained is not None:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._drained)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False


def _headers(response: HttpResponse, length: int | None, *, keep: bool) -> list[tuple[str, str]]:
    bodyless = response.status in (204, 304)
    names = {name.lower() for name, _ in response.headers}
    headers = []
    if length is None and "content-length" not in names:
        headers.append(("Transfer-Encoding", "chunked"))
    elif length is not None and not bodyless:
        headers.append(("Content-Length", str(length)))
    if response.content_type and not bodyless:
        headers.append(("Content-Type", response.content_type))
    if "cache-control" not in names:
        headers.append(("Cache-Control", "no-cache, private"))
    headers += response.headers
    if not keep:
        headers.append(("Connection", "close"))
    headers.append(date_header())
    return headers
