"""A client as thin as HTTP/1.1 allows, so that what is measured is the server.

Each `Wire` is one TLS connection with one request at a time, as a busy client would keep it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is and how it knows us."""

    url: str
    context: ssl.SSLContext | None
    token: str = ""

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port


def _nothing() -> None:
    """For streams whose end nobody minds."""


class Wire(asyncio.Protocol):
    """Requests and answers, in turn; or one answer without end, handed on as it comes."""

    def __init__(self, target: Target) -> None:
        host, port = target.address
        login = f"Authorization: Bearer {target.token}\r\n" if target.token else ""
        self._head = f"Host: {host}:{port}\r\n{login}Accept: application/json\r\n"
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None
        self._body: list[bytes] = []
        self._on_chunk: Callable[[bytes], None] | None = None
        self._on_end: Callable[[], None] = _nothing
        self.closed = False

    @classmethod
    async def connect(cls, target: Target) -> Wire:
        loop = asyncio.get_running_loop()
        host, port = target.address
        _, wire = await loop.create_connection(lambda: cls(target), host, port, ssl=target.context)
        return wire

    async def call(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, bytes]:
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(self._encoded(method, path, body, kind))
        return await self._waiting

    def listen(
        self,
        path: str,
        on_chunk: Callable[[bytes], None],
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """`on_end`: the server has ended the stream, as it does with readers that are too slow."""
        self._on_chunk = on_chunk
        self._on_end = on_end or _nothing
        self._transport.write(self._encoded("GET", path, b"", ""))

    def close(self) -> None:
        self._transport.close()

    def _encoded(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        typed = f"Content-Type: {kind}\r\n" if body else ""
        start = f"{method} {path} HTTP/1.1\r\n{self._head}{typed}Content-Length: {len(body)}\r\n"
        return start.encode() + b"\r\n" + body

    # ── the transport's and the parser's side ────────────────────────────────────────────
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError("the server went away"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if self._on_chunk is not None:
            self._on_chunk(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._on_end()
        body, self._body = b"".join(self._body), []
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((self._parser.get_status_code(), body))
