"""The proxy subresource: forwards an HTTP request to a port of a Pod."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from urllib.parse import quote, urlencode

import httptools

from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.httpserver.upgrade import UpgradedConnection
from manta.localplane.apiserver.status_errors import StatusError
from manta.localplane.apiserver.streaming.port_forward import relay

HEADERS_TIMEOUT_SECONDS = 60.0
HEAD_LIMIT = 64 * 1024
"""Bytes of the headers of the response of a Pod."""
_CHUNK_BYTES = 64 * 1024
SAFE_PATH = "/:@!$&'()*+,;=~-._"
"""Characters of a path that need no quoting. `%` does: the path was decoded before."""
_HOP_HEADERS = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "host",
        "accept-encoding",
        "expect",
    )
)
_IDENTITY_HEADERS = ("impersonate-", "x-remote-")
"""Never forwarded: a Pod could believe them."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]


def unreachable(error: Exception) -> StatusError:
    message = f"error trying to reach service: {error}"
    return StatusError(503, "ServiceUnavailable", message)


async def forward(request: HttpRequest, rest: str, base: str, dial: Dial) -> HttpResponse:
    """Return the response of the Pod. Raises StatusError if it cannot be reached.

    `rest` is the path inside the Pod, `base` the path of the proxy on this server.
    """
    try:
        reader, writer = await dial()
    except OSError as error:
        raise unreachable(error) from None
    via = f"X-Forwarded-Uri: {quote(base.rstrip('/') + '/' + rest, safe=SAFE_PATH)}"
    writer.write(_head(request, rest, via, upgrade=False) + request.body)
    answer = _PodResponse(reader, writer, head_only=request.method == "HEAD")
    try:
        async with asyncio.timeout(HEADERS_TIMEOUT_SECONDS):
            await writer.drain()
            await answer.begin()
    except (OSError, TimeoutError) as error:
        writer.close()
        raise unreachable(error) from None
    except BaseException:
        writer.close()
        raise
    return answer.response(base)


def _head(request: HttpRequest, rest: str, *more: str, upgrade: bool) -> bytes:
    query = f"?{urlencode(request.query)}" if request.query else ""
    path = quote("/" + rest, safe=SAFE_PATH)
    lines = [f"{request.method} {path}{query} HTTP/1.1", "Host: localhost", *more]
    lines += [f"{name}: {value}" for name, value in _forwarded_headers(request)]
    if upgrade:
        lines += ["Connection: Upgrade", f"Upgrade: {request.headers.get('upgrade', '')}"]
    else:
        lines.append("Connection: close")
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


def _forwarded_headers(request: HttpRequest) -> Iterator[tuple[str, str]]:
    named = {name.strip().lower() for name in request.headers.get("connection", "").split(",")}
    for name, value in request.headers.items():
        if (
            name in _HOP_HEADERS
            or name in named
            or name == "authorization"
            or name.startswith(_IDENTITY_HEADERS)
        ):
            continue
        if "\n" not in value and "\r" not in value:
            yield name, value


class _PodResponse:
    """The response of a Pod. Its body is read while it is forwarded."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, head_only: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._head_only = head_only
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[str, str]] = []
        self._chunks: list[bytes] = []
        self._head_bytes = 0
        self._status = 0
        self._begun = False
        self._framed = False
        """Whether the head says how long the body is; otherwise it ends with the connection."""
        self._ended = False

    async def begin(self) -> None:
        while not self._begun:
            await self._more()

    async def _more(self) -> None:
        data = await self._reader.read(_CHUNK_BYTES)
        if not self._begun:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT + _CHUNK_BYTES:
                raise ConnectionResetError(f"the answer's headers exceed {HEAD_LIMIT} bytes")
        if data:
            self._feed(data)
        elif not self._begun:
            raise ConnectionResetError("the connection was closed before an answer came")
        elif self._framed:
            raise ConnectionResetError("the connection was closed in the middle of the answer")
        else:
            self._ended = True

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._ended:  # ignore bytes after the response
                raise ConnectionResetError(f"the answer is not HTTP/1.1: {error}") from None

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._begun:  # ignore trailers
            self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._begun:
            return
        if 100 <= status < 200:
            self._headers.clear()
            return
        if sum(len(name) + len(value) for name, value in self._headers) > HEAD_LIMIT:
            raise ValueError(f"the answer's headers exceed {HEAD_LIMIT} bytes")
        self._begun = True
        self._status = status
        names = {name.lower() for name, _ in self._headers}
        self._framed = bool(names & {"content-length", "transfer-encoding"})
        self._ended = self._head_only or status in (204, 304)

    def on_body(self, body: bytes) -> None:
        if not self._ended:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        self._ended = self._begun

    def response(self, base: str) -> HttpResponse:
        kept = []
        content_type = ""
        for name, value in self._headers:
            lowered = name.lower()
            if lowered == "content-type":
                content_type = value
            elif lowered == "location" and value.startswith("/"):
                kept.append((name, f"{base.rstrip('/')}{value}"))
            elif (lowered == "content-length" and self._head_only) or (
                lowered not in _HOP_HEADERS and lowered != "date"
            ):
                kept.append((name, value))
        return HttpResponse(self._status, self, tuple(kept), content_type)

    # ── the body; its owner must close it ────────────────────────────────────────────────
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._ended:
                self._writer.close()
                raise StopAsyncIteration
            await self._more()
        chunk, self._chunks = b"".join(self._chunks), []
        return chunk

    async def aclose(self) -> None:
        self._writer.close()


async def forward_upgrade(
    request: HttpRequest, rest: str, dial: Dial, connection: UpgradedConnection
) -> None:
    """Forward an upgrade. The Pod answers the handshake itself. Raises StatusError."""
    try:
        reader, writer = await dial()
    except OSError as error:
        raise unreachable(error) from None
    writer.write(_head(request, rest, upgrade=True))
    await writer.drain()

    async def receive() -> bytes:
        return await connection.reader.read(_CHUNK_BYTES)

    async def send(data: bytes) -> None:
        connection.write(data)
        await connection.drain()

    async def finish() -> None:
        return

    with contextlib.suppress(ConnectionError):
        await relay(receive, send, finish, reader, writer)
