"""Bytes of one connection in, requests out, one at a time.

A request is handed out as soon as its head is complete, so that its sender is authenticated before
the body is read. The parser stops there: it reads the body when it is admitted, and the next request
when the previous one is taken. At most one read from the socket waits unparsed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import httptools

from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpError
from manta.httpserver.request import HEAD_TOO_LARGE, IncomingRequest

_SLICE: Final = 1024
"""Bytes parsed at a time outside of bodies: this bounds how many tiny requests are read ahead."""


class RequestParser:
    def __init__(
        self, limits: Limits, started: Callable[[], None], ready: Callable[[], None]
    ) -> None:
        """`started` is called at the first byte of a request, `ready` when there is one to take."""
        self._limits = limits
        self._started = started
        self._ready = ready
        self._parser = httptools.HttpRequestParser(self)
        self._waiting = memoryview(b"")
        self._queue: deque[IncomingRequest] = deque()
        self._incoming: IncomingRequest | None = None
        self._in_body = False
        self._ended = False
        self._unaccounted = 0
        """Bytes since the last callback of httptools: an unfinished header, mostly."""
        self.upgraded: bytes | None = None
        """The bytes after a request that ends HTTP on this connection."""

    @property
    def mid_head(self) -> bool:
        """Whether part of a head is received, but not all."""
        return self._incoming is not None and not self._in_body

    @property
    def wants_data(self) -> bool:
        return not self._waiting and self._may_parse()

    def has_requests(self) -> bool:
        return bool(self._queue)

    def take(self) -> IncomingRequest:
        return self._queue.popleft()

    def feed(self, data: bytes) -> None:
        self._waiting = memoryview(bytes(self._waiting) + data if self._waiting else data)
        self.parse()

    def close(self) -> None:
        """Release all received bytes. They are part of reference cycles, so their memory would
        otherwise wait for the garbage collector."""
        self._ended = True
        self._waiting = memoryview(b"")
        for incoming in (*self._queue, self._incoming):
            if incoming is not None:
                incoming.drop_body()
        self._queue.clear()

    def admit(self, incoming: IncomingRequest) -> None:
        incoming.admitted = True
        self.parse()

    def parse(self) -> None:
        """Parse the bytes that wait, as far as is allowed now."""
        while self._waiting and self._may_parse():
            size = self._slice()
            part, self._waiting = self._waiting[:size], self._waiting[size:]
            self._unaccounted += len(part)
            try:
                self._parser.feed_data(part)
            except httptools.HttpParserUpgrade as upgrade:
                self._end_http(bytes(part[upgrade.args[0] :]))
            except httptools.HttpParserError:
                self._fail(HttpError(400, "the request is not HTTP/1.1"))
            if self._unaccounted > self._limits.head_bytes and not self._ended:
                self._fail(HttpError(*HEAD_TOO_LARGE))

    def _may_parse(self) -> bool:
        if self._ended:
            return False
        if self._in_body and self._incoming is not None:
            return self._incoming.admitted
        return not self._queue

    def _slice(self) -> int:
        if self._in_body and self._incoming is not None:
            missing = self._incoming.missing()
            return max(missing, 1) if missing is not None else _SLICE
        return _SLICE

    def _end_http(self, rest: bytes) -> None:
        self._ended = True
        self.upgraded = rest + bytes(self._waiting)
        self._waiting = memoryview(b"")

    def _fail(self, error: HttpError) -> None:
        """Stop: nothing after a malformed request can be trusted."""
        self._ended = True
        self._waiting = memoryview(b"")
        incoming = self._incoming or IncomingRequest(self._limits)
        handed_out = self._in_body
        incoming.finish(error)
        if not handed_out:
            self._queue.append(incoming)
            self._ready()

    # ── httptools calls these ────────────────────────────────────────────────────────────
    def on_message_begin(self) -> None:
        self._unaccounted = 0
        self._incoming = IncomingRequest(self._limits)
        self._in_body = False
        self._started()

    def on_url(self, url: bytes) -> None:
        assert self._incoming is not None
        # An error response needs the method too: a response to HEAD has no body.
        self._incoming.method = self._parser.get_method().decode()
        self._incoming.url += url
        self._incoming.count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._incoming is not None
        self._unaccounted = 0
        self._incoming.add_header(name, value)

    def on_headers_complete(self) -> None:
        self._unaccounted = 0
        assert self._incoming is not None
        self._incoming.end_head(keep_alive=self._parser.should_keep_alive())
        self._incoming.upgrade = self._parser.should_upgrade()
        self._in_body = True
        self._queue.append(self._incoming)
        self._ready()

    def on_body(self, body: bytes) -> None:
        assert self._incoming is not None
        self._unaccounted = 0
        self._incoming.add_body(body)

    def on_message_complete(self) -> None:
        self._unaccounted = 0
        incoming, self._incoming = self._incoming, None
        self._in_body = False
        assert incoming is not None
        incoming.finish()
