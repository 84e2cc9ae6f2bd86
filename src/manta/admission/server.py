"""HTTPS for AdmissionReviews: as much HTTP/1.1 as an API server speaks to a webhook."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from manta.admission.review import BadReview
from manta.api.numbers import parse_count
from manta.runtime.health import Address

log = logging.getLogger(__name__)

LARGEST = 8 * 1024 * 1024
"""Bytes of a review; an object is at most 1.5 MiB, and an update brings two."""
IDLE = 120.0
"""Seconds for which a connection may rest between two requests."""
SLOWEST = 10.0
"""Seconds for a request to arrive; API servers give a webhook 10 s at most by default."""

MAX_CONNECTIONS = 256
"""At once; API servers keep a few and use them again."""
SMALL = 256 * 1024
MAX_LARGE = 8
"""Reviews of more than `SMALL` bytes that are read at once: 64 MiB at most."""

_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Content Too Large"}
Judge = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str = "application/json"

    def encode(self) -> bytes:
        head = (
            f"HTTP/1.1 {self.status} {_PHRASES[self.status]}\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n\r\n"
        )
        return head.encode("latin-1") + self.body


class ReviewServer:
    def __init__(self, address: Address, context: ssl.SSLContext, judge: Judge) -> None:
        self._address = address
        self._context = context
        self._judge = judge
        self._connections = 0
        self._large = asyncio.Semaphore(MAX_LARGE)
        self.port = address.port
        self.listening = asyncio.Event()

    async def run(self) -> None:
        server = await asyncio.start_server(
            self._serve, self._address.host, self._address.port, ssl=self._context
        )
        self.port = server.sockets[0].getsockname()[1]
        self.listening.set()
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests one after the other, until the other side has no more."""
        if self._connections >= MAX_CONNECTIONS:
            log.warning("more than %d connections: one is refused", MAX_CONNECTIONS)
            writer.close()
            return
        self._connections += 1
        try:
            while answer := await self._next(reader):
                writer.write(answer.encode())
                async with asyncio.timeout(SLOWEST):
                    await writer.drain()
                if answer.status in (400, 413):
                    break  # what follows on this connection could be anything
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the other side sees it, and asks again
        except asyncio.CancelledError:
            pass  # the process ends; Python 3.11 would call a cancelled connection an error
        except Exception:  # one client's request must not end in a traceback of asyncio's
            log.exception("a request could not be answered")
        finally:
            self._connections -= 1
            writer.close()

    async def _next(self, reader: asyncio.StreamReader) -> Answer | None:
        async with asyncio.timeout(IDLE):
            first = await reader.readexactly(1)
        async with asyncio.timeout(SLOWEST):  # from its first byte on, a request comes quickly
            head = first + await reader.readuntil(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = line.partition(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (one.partition(":") for one in lines)
        }
        length = parse_count(headers.get("content-length", "0"))
        if length is None or "transfer-encoding" in headers:
            return _plain(400, "a length is needed")
        if length > LARGEST:
            return _plain(413, f"more than {LARGEST} bytes")
        path = rest.partition(" ")[0]
        if length <= SMALL:
            return self._answer(method, path, await _body(reader, length))
        async with asyncio.timeout(SLOWEST), self._large:
            body = await _body(reader, length)
            return await asyncio.to_thread(self._answer, method, path, body)

    def _answer(self, method: str, path: str, body: bytes) -> Answer:
        if method == "GET" and path in ("/healthz", "/readyz"):
            return _plain(200, "ok")
        if method != "POST":
            return _plain(404, "reviews are sent with POST")
        try:
            return Answer(200, self._judge(body))
        except BadReview as error:
            return _plain(400, str(error))


async def _body(reader: asyncio.StreamReader, length: int) -> bytes:
    async with asyncio.timeout(SLOWEST):
        return await reader.readexactly(length)


def _plain(status: int, text: str) -> Answer:
    return Answer(status, text.encode(), "text/plain; charset=utf-8")
