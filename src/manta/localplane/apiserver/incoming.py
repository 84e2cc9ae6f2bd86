"""Requests while they arrive: parsing with limits, and no further than there is use for it.

One request is handed out as soon as its head is complete, so that its sender is known before its body
is read. The parser stops there: the next bytes wait until the body is admitted, and the next request
until the one before is taken. What waits is at most what one read from the socket has brought.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl, unquote

import httptools

from manta.localplane.apiserver.messages import HttpRequest
from manta.localplane.apiserver.status_errors import Refusal, bad_request, too_large

BODY_LIMIT = 3 * 1024 * 1024
HEADER_LIMIT = 64 * 1024
"""Of the request line, all headers and all trailers."""
HEADER_COUNT = 256
QUERY_COUNT = 1000
"""Parameters in a query."""
_HEAD_TOO_LARGE: Final = Refusal(431, "BadRequest", "the headers of the request are too large")
_SLICE: Final = 1024
"""Bytes parsed at a time outside of bodies: this bounds how many tiny requests are read ahead."""


class Incoming:
    """One request while it arrives."""

    def __init__(self) -> None:
        self.method = "GET"
        self.url = b""
        self.headers: dict[str, str] = {}
        self.keep_alive = False
        self.upgrade = False
        self.expects_continue = False
        self.length: int | None = 0
        """Of the body, as announced; None: it comes in chunks."""
        self.fault: Refusal | None = None
        self.admitted = False
        """Whether its body may be read."""
        self.complete = False
        self._body: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._head_count = 0
        self._head_complete = False
        self._changed: asyncio.Future[None] | None = None

    def takes_gzip(self) -> bool:
        """Only what is read is compressed, and only for who asks."""
        names = self.headers.get("accept-encoding", "").lower().split(",")
        return self.method == "GET" and any(
            name.partition(";")[0].strip() == "gzip" and "q=0" not in name.partition(";")[2]
            for name in names
        )

    def request(self) -> HttpRequest:
        """The request without its body. Raises a Refusal for a query that is too long."""
        path, _, query = self.url.decode("latin-1").partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_COUNT)
        except ValueError:
            raise bad_request(f"the query has more than {QUERY_COUNT} parameters") from None
        text = unquote(path) if "%" in path else path
        return HttpRequest(self.method, text, tuple(pairs), self.headers)

    def body(self) -> bytes:
        return b"".join(self._body)

    def drop_body(self) -> None:
        self._body.clear()

    async def received(self) -> None:
        """Return when the whole request is there, or a fault."""
        while not self.complete and self.fault is None:
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed

    def settle(self, fault: Refusal | None = None) -> None:
        """Nothing more comes: the request is complete, or there is something wrong with it."""
        self.complete = True
        self.fault = self.fault or fault
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # ── for the parser ───────────────────────────────────────────────────────────────────
    def add_header(self, name: bytes, value: bytes) -> None:
        self._head_count += 1
        self.count(len(name) + len(value))
        if self._head_complete:
            return  # A trailer. It comes after all decisions that headers are made for.
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        known = self.headers.get(key)
        self.headers[key] = text if known is None else f"{known}, {text}"

    def end_head(self, *, keep_alive: bool) -> None:
        self._head_complete = True
        self.keep_alive = keep_alive
        self.expects_continue = self.headers.get("expect", "").lower() == "100-continue"
        if "transfer-encoding" in self.headers:
            self.length = None
            return
        self.length = _length(self.headers.get("content-length", "0"))
        if self.length > BODY_LIMIT:
            self.refuse(too_large(BODY_LIMIT))

    def add_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > BODY_LIMIT:
            self.refuse(too_large(BODY_LIMIT))
        self._body.append(body)

    def left(self) -> int | None:
        """Announced bytes of the body that have not come yet; None: nobody knows."""
        return None if self.length is None else self.length - self._size

    def count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > HEADER_LIMIT or self._head_count > HEADER_COUNT:
            self.refuse(_HEAD_TOO_LARGE)

    def refuse(self, fault: Refusal) -> None:
        self.fault = fault
        raise fault


def _length(text: str) -> int:
    """llhttp has refused what is no number; more digits than this are too many in any case."""
    return int(text) if len(text) < 20 and text.isdigit() else BODY_LIMIT + 1


class RequestParser:
    """Bytes of one connection in, requests out, one at a time."""

    def __init__(self, begun: Callable[[], None], ready: Callable[[], None]) -> None:
        """`begun` is called at the first byte of a request, `ready` when there is one to take."""
        self._begun = begun
        self._ready = ready
        self._parser = httptools.HttpRequestParser(self)
        self._waiting = memoryview(b"")
        self._queue: deque[Incoming] = deque()
        self._incoming: Incoming | None = None
        self._in_body = False
        self._over = False
        self._unaccounted = 0
        """Bytes since the parser last said what it made of them: an unfinished header, mostly."""
        self.upgraded: bytes | None = None
        """What has come after a request that leaves HTTP."""

    @property
    def mid_head(self) -> bool:
        """Part of a head has come, but not all."""
        return self._incoming is not None and not self._in_body

    @property
    def wants_data(self) -> bool:
        return not self._waiting and self._may_parse()

    def has_requests(self) -> bool:
        return bool(self._queue)

    def take(self) -> Incoming:
        return self._queue.popleft()

    def feed(self, data: bytes) -> None:
        self._waiting = memoryview(bytes(self._waiting) + data if self._waiting else data)
        self.parse()

    def close(self) -> None:
        """Let go of everything that has come: the connection is over. Its objects refer to each other,
        so that their memory would wait for the garbage collector."""
        self._over = True
        self._waiting = memoryview(b"")
        for incoming in (*self._queue, self._incoming):
            if incoming is not None:
                incoming.drop_body()
        self._queue.clear()

    def admit(self, incoming: Incoming) -> None:
        incoming.admitted = True
        self.parse()

    def parse(self) -> None:
        """Read on in what has come already, as far as is allowed now."""
        while self._waiting and self._may_parse():
            size = self._slice()
            part, self._waiting = self._waiting[:size], self._waiting[size:]
            self._unaccounted += len(part)
            try:
                self._parser.feed_data(part)
            except httptools.HttpParserUpgrade as upgrade:
                self._leave_http(bytes(part[upgrade.args[0] :]))
            except httptools.HttpParserError:
                self._fail(bad_request("the request is not HTTP/1.1"))
            if self._unaccounted > HEADER_LIMIT and not self._over:
                self._fail(_HEAD_TOO_LARGE)

    def _may_parse(self) -> bool:
        if self._over:
            return False
        if self._in_body and self._incoming is not None:
            return self._incoming.admitted
        return not self._queue

    def _slice(self) -> int:
        if self._in_body and self._incoming is not None:
            left = self._incoming.left()
            return max(left, 1) if left is not None else _SLICE
        return _SLICE

    def _leave_http(self, rest: bytes) -> None:
        self._over = True
        self.upgraded = rest + bytes(self._waiting)
        self._waiting = memoryview(b"")

    def _fail(self, fault: Refusal) -> None:
        """Nothing after a malformed request can be trusted."""
        self._over = True
        self._waiting = memoryview(b"")
        incoming = self._incoming or Incoming()
        known = self._in_body
        incoming.settle(fault)
        if not known:
            self._queue.append(incoming)
            self._ready()

    # ── httptools calls these ────────────────────────────────────────────────────────────
    def on_message_begin(self) -> None:
        self._unaccounted = 0
        self._incoming = Incoming()
        self._in_body = False
        self._begun()

    def on_url(self, url: bytes) -> None:
        assert self._incoming is not None
        self._incoming.method = self._parser.get_method().decode()  # a refusal must know a HEAD
        self._incoming.url += url
        self._incoming.count(len(url))

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
        incoming.settle()
