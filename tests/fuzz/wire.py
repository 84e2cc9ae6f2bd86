"""Sends one request as raw bytes and reads exactly one answer, or says how the connection broke."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from random import Random
from typing import Self
from urllib.parse import urlsplit

import httptools

from fuzz.requests import Request

TIMEOUT = 20.0
"""Seconds without a whole answer that count as a hang."""
CLOSED, HANGS, GARBLED = -1, -2, -3
"""In place of a status: the server closed the connection, never answered, or sent what is not HTTP."""


@dataclass(frozen=True)
class Target:
    url: str
    context: ssl.SSLContext
    token: str = ""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    seconds: float = 0.0


class _Reader:
    """The callbacks of httptools: one answer."""

    def __init__(self) -> None:
        self.body: list[bytes] = []
        self.complete = False

    def on_body(self, body: bytes) -> None:
        self.body.append(body)

    def on_message_complete(self) -> None:
        self.complete = True


class Connection:
    """A keep-alive connection that is opened again when it was closed."""

    def __init__(self, target: Target, rng: Random) -> None:
        self._target = target
        self._rng = rng
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, request: Request) -> Answer:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(TIMEOUT):
                status, body = await self._exchange(request)
        except TimeoutError:
            status, body = HANGS, b""
        except (httptools.HttpParserError, ValueError) as error:
            status, body = GARBLED, repr(error).encode()
        except (OSError, asyncio.IncompleteReadError):
            status, body = CLOSED, b""
        if status < 200 or request.method == "HEAD":
            await self.close()
        return Answer(status, body, loop.time() - began)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _exchange(self, request: Request) -> tuple[int, bytes]:
        fresh = self._streams is None
        reader, writer = await self._open()
        writer.write(self._encoded(request))
        try:
            return await self._answer(reader, writer, request)
        except asyncio.IncompleteReadError:
            if fresh:
                raise
        await self.close()  # an idle connection may be closed at any time; once is no finding
        reader, writer = await self._open()
        writer.write(self._encoded(request))
        return await self._answer(reader, writer, request)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            parts = urlsplit(self._target.url)
            self._streams = await asyncio.open_connection(
                parts.hostname, parts.port, ssl=self._target.context, limit=2**22
            )
        return self._streams

    def _encoded(self, request: Request) -> bytes:
        headers = dict(request.headers)
        if self._target.token:
            headers.setdefault("Authorization", f"Bearer {self._target.token}")
        lines = [
            f"{request.method} {request.target} HTTP/1.1",
            f"Host: {urlsplit(self._target.url).netloc}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(request.body)}")
        head = "\r\n".join(lines).encode("utf-8", "replace")
        return head + b"\r\n\r\n" + request.body

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request
    ) -> tuple[int, bytes]:
        if request.method == "HEAD":
            return await self._head_only(reader, writer)
        got = _Reader()
        parser = httptools.HttpResponseParser(got)
        while not got.complete:
            data = await reader.read(2**16)
            if not data:
                raise asyncio.IncompleteReadError(b"", None)
            try:
                parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                return await self._upgraded(writer, reader)
        if not parser.should_keep_alive():
            status = parser.get_status_code()
            await self.close()
            return status, b"".join(got.body)
        return parser.get_status_code(), b"".join(got.body)

    async def _head_only(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[int, bytes]:
        """No body may follow: the next bytes are those of the next answer, or there are none."""
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        more = await reader.read(12)
        if more and not more.startswith(b"HTTP/1.1 "[: len(more)]):
            raise ValueError(f"a body after HEAD: {more!r}")
        return status, b""

    async def _upgraded(
        self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader
    ) -> tuple[int, bytes]:
        """Noise on an upgraded connection; whatever comes back within a second is fine."""
        size = self._rng.choice((4, 100, 5000))
        writer.write(self._rng.randbytes(size))
        try:
            async with asyncio.timeout(1):
                await reader.read(2**16)
        except TimeoutError:
            pass
        return 101, b""
