"""`/healthz`, `/readyz` and `/metrics`: a few lines of HTTP, no framework, no blocking."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

_READ_SECONDS = 5.0
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    body: str
    content_type: str = _TEXT


@dataclass(frozen=True, slots=True)
class Negotiated:
    """A page whose form depends on the `Accept` header."""

    make: Callable[[str], Page]


Pages = Mapping[str, Callable[[], Page] | Negotiated]


def ping() -> Page:
    return Page(200, "ok")


@dataclass(frozen=True, slots=True)
class Address:
    host: str | None
    """None: all interfaces."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """`:8080`, `127.0.0.1:8080`, `[::1]:8080`; None for '0' and '', which switch it off."""
        if text in {"", "0"}:
            return None
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{text!r} is no address such as :8080 or 127.0.0.1:8080")
        return cls(host.strip("[]") or None, int(port))


class PageServer:
    """Serves pages worked out at each request. Speaks as much HTTP as probes and scrapers do."""

    def __init__(self, address: Address, pages: Pages) -> None:
        self._address = address
        self._pages = pages
        self.port = address.port
        self.listening = asyncio.Event()

    async def run(self) -> None:
        server = await asyncio.start_server(self._serve, self._address.host, self._address.port)
        self.port = server.sockets[0].getsockname()[1]
        self.listening.set()
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(answer(head, self._pages))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.LimitOverrunError:
            writer.write(_encode(Page(431, "request header too large"), with_body=True))
        finally:
            writer.close()


def answer(head: bytes, pages: Pages) -> bytes:
    """The response to a request, of which only the first line and `Accept` matter."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _encode(Page(400, "bad request"), with_body=True)
    method, path = words[0], words[1].partition("?")[0]
    if method not in {"GET", "HEAD"}:
        return _encode(Page(405, "only GET and HEAD"), with_body=True)
    make = pages.get(path) or pages.get(path.rstrip("/"))
    return _encode(_page(make, head), with_body=method == "GET")


def _page(make: Callable[[], Page] | Negotiated | None, head: bytes) -> Page:
    try:
        if isinstance(make, Negotiated):
            return make.make(_accept(head))
        return make() if make else Page(404, "not found")
    except Exception:
        log.exception("a page could not be made")
        return Page(500, "internal error: see the log")


def _accept(head: bytes) -> str:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines)
    return ",".join(value.strip() for name, _, value in pairs if name.lower() == "accept")


_PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def _encode(page: Page, *, with_body: bool) -> bytes:
    body = page.body.encode()
    head = (
        f"HTTP/1.1 {page.status} {_PHRASES.get(page.status, 'Unknown')}\r\n"
        f"Content-Type: {page.content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if with_body else b"")
