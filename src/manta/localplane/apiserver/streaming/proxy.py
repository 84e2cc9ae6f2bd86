"""The proxy to Pods and Services: an HTTP request carried to a port inside a Pod."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import quote, urlencode

import httptools

from manta.localplane.apiserver.messages import HttpRequest, HttpResponse
from manta.localplane.apiserver.status_errors import Refusal
from manta.localplane.apiserver.streaming.pipe import Pipe
from manta.localplane.apiserver.streaming.port_forward import join

HEADERS_WITHIN = 60.0
_CHUNK = 64 * 1024
PATH_CHARACTERS = "/:@!$&'()*+,;=~-._"
"""What a path may have as it is. A percent sign is quoted: the path has been decoded before."""
_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "authorization",
        "content-length",
        "host",
        "accept-encoding",
        "expect",
    )
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]


def unreachable(error: Exception) -> Refusal:
    message = f"error trying to reach service: {error}"
    return Refusal(503, "ServiceUnavailable", message)


async def forward(request: HttpRequest, rest: str, base: str, dial: Dial) -> HttpResponse:
    """`rest` is the path inside the Pod, `base` the path of the proxy on this server."""
    try:
        reader, writer = await dial()
    except OSError as error:
        raise unreachable(error) from None
    via = f"X-Forwarded-Uri: {quote(base.rstrip('/') + '/' + rest, safe=PATH_CHARACTERS)}"
    writer.write(_head(request, rest, via, upgrade=False) + request.body)
    answer = _Answer(reader, writer)
    try:
        async with asyncio.timeout(HEADERS_WITHIN):
            await writer.drain()
            await answer.begin()
    except (OSError, TimeoutError, httptools.HttpParserError) as error:
        writer.close()
        raise unreachable(error) from None
    except BaseException:
        writer.close()
        raise
    return answer.response(base)


def _head(request: HttpRequest, rest: str, *more: str, upgrade: bool) -> bytes:
    query = f"?{urlencode(request.query)}" if request.query else ""
    path = quote("/" + rest, safe=PATH_CHARACTERS)
    lines = [f"{request.method} {path}{query} HTTP/1.1", "Host: localhost", *more]
    for name, value in request.headers.items():
        if name not in _HOP and "\n" not in value and "\r" not in value:
            lines.append(f"{name}: {value}")
    if upgrade:
        lines += ["Connection: Upgrade", f"Upgrade: {request.headers.get('upgrade', '')}"]
    else:
        lines.append("Connection: close")
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


class _Answer:
    """The Pod's answer, read as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[str, str]] = []
        self._chunks: list[bytes] = []
        self._begun = False
        self._ended = False

    async def begin(self) -> None:
        while not self._begun:
            await self._more()

    async def _more(self) -> None:
        data = await self._reader.read(_CHUNK)
        if data:
            self._parser.feed_data(data)
        elif not self._begun:
            raise ConnectionResetError("the connection was closed before an answer came")
        else:
            self._ended = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() == 100:
            self._headers.clear()
            return
        self._begun = True

    def on_body(self, body: bytes) -> None:
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
            elif lowered not in _HOP and lowered != "date":
                kept.append((name, value))
        status = self._parser.get_status_code()
        return HttpResponse(status, self._body(), tuple(kept), content_type)

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            while True:
                if self._chunks:
                    chunk, self._chunks = b"".join(self._chunks), []
                    yield chunk
                if self._ended:
                    return
                with contextlib.suppress(httptools.HttpParserError):
                    await self._more()
        finally:
            self._writer.close()


async def forward_upgrade(request: HttpRequest, rest: str, dial: Dial, pipe: Pipe) -> None:
    """A WebSocket through the proxy: the Pod answers the handshake itself."""
    try:
        reader, writer = await dial()
    except OSError as error:
        raise unreachable(error) from None
    writer.write(_head(request, rest, upgrade=True))
    await writer.drain()

    async def receive() -> bytes:
        return await pipe.reader.read(_CHUNK)

    async def send(data: bytes) -> None:
        pipe.write(data)
        await pipe.drain()

    async def finish() -> None:
        return

    with contextlib.suppress(ConnectionError):
        await join(receive, send, finish, reader, writer)
