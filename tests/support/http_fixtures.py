"""Two doubles of a wire: a transport without a network, and a server without any sense.

They stand in for bytes, never for the behaviour of an API server.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

import msgspec

from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response

LOST_BEFORE = Unreachable("connection refused", sent=False)
LOST_AFTER = Unreachable("connection reset", sent=True)


def answer(status: int = 200, body: object = None, **headers: str) -> Response:
    """Keywords are headers: `retry_after="3"`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body if body is not None else {})
    return Response(status, named, raw)


def refusal(code: int, reason: str, message: str = "no", **details: object) -> Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return answer(code, status | ({"details": details} if details else {}))


@dataclass
class ScriptedStream:
    parts: Sequence[bytes | Exception]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    closed: bool = False

    async def chunks(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part


Scripted = Response | Exception | ScriptedStream


class ScriptedTransport:
    """Gives the answers in order. A request beyond the script is an error of the test."""

    def __init__(self, *script: Scripted) -> None:
        self._script = list(script)
        self.requests: list[Request] = []
        self.closed = False

    async def send(self, request: Request) -> Response:
        given = self._next(request)
        assert isinstance(given, Response)
        return given

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ScriptedStream]:
        given = self._next(request)
        if isinstance(given, Response):
            given = ScriptedStream([given.body], given.status, dict(given.headers))
        try:
            yield given
        finally:
            given.closed = True

    async def close(self) -> None:
        self.closed = True

    def _next(self, request: Request) -> Response | ScriptedStream:
        self.requests.append(request)
        assert self._script, f"unexpected request {request}"
        given = self._script.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    @property
    def exhausted(self) -> bool:
        return not self._script


# ── a server that does exactly what a test tells it ──────────────────────────────────────────
@dataclass(frozen=True)
class Asked:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    peer: str = ""
    """The common name of the client's certificate."""


Answering = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


class WireServer:
    """A bare HTTP/1.1 server on 127.0.0.1. It knows nothing of Kubernetes."""

    def __init__(self, answering: Answering, tls: ssl.SSLContext | None = None) -> None:
        self._answering = answering
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._serve(reader, writer, self.connections)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        while not writer.is_closing():
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = Asked(method, target, headers, body, connection, _peer(writer))
            self.asked.append(asked)
            await self._answering(asked, writer)
            await writer.drain()


def _peer(writer: asyncio.StreamWriter) -> str:
    certificate = writer.get_extra_info("peercert") or {}
    subject: dict[str, str] = {
        key: value for part in certificate.get("subject", ()) for key, value in part
    }
    return subject.get("commonName", "")


def http(status: int = 200, body: bytes = b"{}", **headers: str) -> bytes:
    """A whole answer, ready to be written."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
