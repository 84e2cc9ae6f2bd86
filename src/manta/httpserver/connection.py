"""One connection. A task answers its requests one after the other, so that pipelined requests are
answered in order, and other connections get their turn in between.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from manta.httpserver.budget import BudgetError
from manta.httpserver.messages import ANONYMOUS, HttpError, HttpRequest, HttpResponse, User
from manta.httpserver.parser import RequestParser
from manta.httpserver.request import IncomingRequest
from manta.httpserver.response import UnsafeHeaderError
from manta.httpserver.sending import ResponseSender
from manta.httpserver.upgrade import UpgradedConnection

if TYPE_CHECKING:
    from manta.httpserver.server import HttpServer

log = logging.getLogger(__name__)

UNSENT_LIMIT = 16 * 1024
"""Bytes in the buffer of a connection above which its writer waits."""
UNREAD_LIMIT = 64 * 1024
"""Bytes of an upgraded connection that wait for their reader; the kernel keeps as many."""
CLOSED_SECONDS = 5.0
"""How long received bytes of an upgraded connection are still processed after the client closed it."""
SKIP_LIMIT_BYTES = 64 * 1024
"""A refused request's body up to this size is read, so that the connection can be used again."""


class Connection(asyncio.Protocol):
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set when connected
        self._parser = RequestParser(server.limits, self._request_started, self._request_ready)
        self._sender = ResponseSender(server.limits, server.handler.default_headers)
        self._ready: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._upgraded: asyncio.StreamReader | None = None
        self._address = "address "
        self._reservation = server.budget.open(self._address, self.abort)
        self._authenticated = False
        """Whether the last request was of an authenticated user."""
        self._tls = False
        self._closing = False
        self._receiving = False
        self._busy = False

    # ── called by the transport ──────────────────────────────────────────────────────────
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._sender.transport = cast("asyncio.Transport", transport)
        # TLS has no half-closed connections; asyncio warns when one is requested.
        self._tls = transport.get_extra_info("ssl_object") is not None
        self._transport.set_write_buffer_limits(high=UNSENT_LIMIT)
        limit_reading = getattr(transport, "set_read_buffer_limits", None)
        if limit_reading is not None:  # only TLS transports have a read buffer
            limit_reading(high=UNREAD_LIMIT)
        self._address = f"address {(transport.get_extra_info('peername') or ('',))[0]}"
        self._charge(self._address)
        if not self._server.connections.opened(self, self._address):
            log.warning("refused a connection from %s: too many are open", self._address)
            self._transport.abort()
            return
        self._task = self._loop.create_task(self._serve())
        self._set_deadline(self._limits.anonymous_idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._set_deadline(None)
        self._closing = True
        if self._upgraded is not None:
            self._upgraded.feed_eof()
        self._sender.lost()
        if self._task is None:
            self._reservation.close()
        elif self._upgraded is None:
            self._task.cancel()
        else:
            self._loop.call_later(CLOSED_SECONDS, self._task.cancel)

    def eof_received(self) -> bool:
        """The client sends no more. Complete requests are still answered, streams are not."""
        if self._upgraded is not None:
            self._upgraded.feed_eof()
            return not self._tls
        self._closing = True
        idle = not self._busy and not self._parser.has_requests()
        if self._sender.streaming or self._receiving or idle:
            self._transport.close()
        return not self._sender.streaming and not self._tls

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
        self._sender.pause()

    def resume_writing(self) -> None:
        self._sender.resume()

    # ── called by the server ─────────────────────────────────────────────────────────────
    def finish(self) -> None:
        """Close after the request in progress, or now if there is none."""
        self._closing = True
        if not self._busy:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # ── reading, and time to read ────────────────────────────────────────────────────────
    def _pace_reading(self) -> None:
        """Read only while the parser has use for more bytes; otherwise the client waits."""
        if self._upgraded is not None:
            return
        if self._parser.wants_data:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _request_started(self) -> None:
        if not self._busy:  # while another request is answered, the client has time
            self._set_deadline(self._read_seconds(idle=False))

    def _request_ready(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _read_seconds(self, *, idle: bool) -> float:
        """How long the client may be idle, or take for one request."""
        limits = self._limits
        if self._authenticated:
            return limits.idle_seconds if idle else limits.request_seconds
        return limits.anonymous_idle_seconds if idle else limits.anonymous_request_seconds

    def _set_deadline(self, seconds: float | None) -> None:
        """Abort the connection after so many seconds; None: no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = (
            None if seconds is None else self._loop.call_later(seconds, self._transport.abort)
        )

    # ── answering ────────────────────────────────────────────────────────────────────────
    async def _serve(self) -> None:
        try:
            while (incoming := await self._next_request()) is not None:
                self._busy = True
                self._set_deadline(None)
                keep_alive = await self._answer(incoming)
                self._reservation.resize(0)
                self._busy = False
                if not keep_alive:
                    break
                self._parser.parse()
                self._pace_reading()
                self._set_deadline(self._read_seconds(idle=not self._parser.mid_head))
                await asyncio.sleep(0)  # let other connections have their turn
        except (ConnectionError, TimeoutError):
            self._transport.abort()
        except Exception:
            log.exception("closing a connection after an unexpected error")
            self._transport.abort()
        finally:
            self._set_deadline(None)
            self._reservation.close()
            self._parser.close()
            self._task = None
            self._transport.close()

    async def _next_request(self) -> IncomingRequest | None:
        """Return the next request; None when no more will come."""
        while not self._parser.has_requests():
            if self._closing:
                return None
            self._ready = self._loop.create_future()
            await self._ready
        incoming = self._parser.take()
        self._pace_reading()  # only a connection that is read from notices that the client closed it
        return incoming

    async def _answer(self, incoming: IncomingRequest) -> bool:
        """Answer one request. Return whether the connection may be used again."""
        try:
            request = incoming.request()
            user = await self._authenticate(incoming, request)
            await self._receive_body(incoming)
        except HttpError as error:
            keep_alive = await self._skip_body(incoming)
            return await self._send_error(error, incoming, keep_alive=keep_alive)
        except BudgetError as error:
            refused = HttpError(429, f"too much is queued for this client: {error}")
            return await self._send_error(refused, incoming, keep_alive=False)
        body = incoming.body()
        incoming.drop_body()
        request = replace(request, user=user, reservation=self._reservation, body=body)
        if incoming.upgrade:
            return await self._upgrade(incoming, request)
        response = await self._handle(request)
        try:
            return await self._send(response, incoming, keep_alive=incoming.keep_alive)
        except UnsafeHeaderError:
            log.exception("the response to %s %r is invalid", request.method, request.path)
            failure = HttpError(500, "the response has an invalid header")
            return await self._send_error(failure, incoming, keep_alive=incoming.keep_alive)

    async def _authenticate(self, incoming: IncomingRequest, request: HttpRequest) -> User:
        """Return the sender, and count memory and connection for them. Raises HttpError."""
        if not self._server.handler.takes_any_host(request):
            incoming.check_host(self._server.hosts)
        certificate = self._transport.get_extra_info("peercert")
        user = await self._server.handler.authenticate(request, certificate)
        self._authenticated = user is not None and user != ANONYMOUS
        client = f"user {user.name}" if user is not None and self._authenticated else self._address
        self._charge(client)
        if user is None:
            raise HttpError(401, "Unauthorized")
        if self._authenticated and not self._server.connections.authenticated(self, client):
            incoming.keep_alive = False
            raise HttpError(429, "this user has too many connections")
        return user

    def _charge(self, client: str) -> None:
        """Count the memory of this connection for `client` from now on."""
        if self._reservation.client != client:
            self._reservation.close()
            self._reservation = self._server.budget.open(client, self.abort)

    async def _receive_body(self, incoming: IncomingRequest) -> None:
        """Read the body within the memory of the client. Raises BudgetError and HttpError."""
        size = 0
        if not incoming.complete:
            size = self._limits.body_bytes if incoming.length is None else incoming.length
        await self._reservation.wait_for(size)
        self._reservation.resize(size)
        if not incoming.complete:
            if incoming.expects_continue:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await self._read_body(incoming)
        if incoming.error is not None:
            raise incoming.error

    async def _read_body(self, incoming: IncomingRequest) -> None:
        self._receiving = True
        self._parser.admit(incoming)
        self._pace_reading()
        async with asyncio.timeout(self._limits.request_seconds):
            await incoming.received()
        self._receiving = False

    async def _skip_body(self, incoming: IncomingRequest) -> bool:
        """Read past a refused request. Return False if the connection must be closed instead."""
        if incoming.error is not None or incoming.upgrade or not incoming.keep_alive:
            return False
        if not incoming.complete:
            missing = incoming.missing()
            if missing is None or missing > SKIP_LIMIT_BYTES or incoming.expects_continue:
                return False
            async with asyncio.timeout(self._limits.anonymous_request_seconds):
                await self._read_body(incoming)
        return incoming.error is None

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        try:
            return await self._server.handler.handle(request)
        except Exception as error:
            log.exception("%s %r could not be answered", request.method, request.path)
            return self._server.handler.error_response(HttpError(500, type(error).__name__))

    async def _upgrade(self, incoming: IncomingRequest, request: HttpRequest) -> bool:
        """Hand the connection to the handler. It cannot be used for HTTP again."""
        assert self._upgraded is not None
        written = False

        def write(data: bytes) -> None:
            nonlocal written
            written = True
            self._transport.write(data)

        reservation = self._server.budget.open(self._reservation.client, self.abort)
        connection = UpgradedConnection(
            self._upgraded, write, self._sender.drain, self._transport.close, reservation
        )
        try:
            response = await self._server.handler.upgrade(request, connection)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            log.exception("%s %r could not be answered", request.method, request.path)
            response = self._server.handler.error_response(HttpError(500, type(error).__name__))
        finally:
            reservation.close()
        if response is not None and not written:
            await self._send(response, incoming, keep_alive=False)
        return False

    async def _send_error(
        self, error: HttpError, incoming: IncomingRequest, *, keep_alive: bool
    ) -> bool:
        response = self._server.handler.error_response(error)
        return await self._send(response, incoming, keep_alive=keep_alive)

    async def _send(
        self, response: HttpResponse, incoming: IncomingRequest, *, keep_alive: bool
    ) -> bool:
        await self._sender.send(response, incoming, self._reservation, keep_alive=keep_alive)
        return keep_alive
