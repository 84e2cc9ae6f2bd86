"""One request while it is being received."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import NoReturn
from urllib.parse import parse_qsl, unquote

from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpError, HttpRequest

HEAD_TOO_LARGE = (431, "the headers of the request are too large")


class IncomingRequest:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.method = "GET"
        self.url = b""
        self.headers: dict[str, str] = {}
        self.keep_alive = False
        self.upgrade = False
        self.expects_continue = False
        self.length: int | None = 0
        """Announced size of the body; None for a chunked body."""
        self.error: HttpError | None = None
        self.admitted = False
        """Whether the body may be read."""
        self.complete = False
        self._body: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._head_count = 0
        self._head_complete = False
        self._changed: asyncio.Future[None] | None = None

    def accepts_gzip(self) -> bool:
        names = self.headers.get("accept-encoding", "").lower().split(",")
        return self.method == "GET" and any(
            name.partition(";")[0].strip() == "gzip" and "q=0" not in name.partition(";")[2]
            for name in names
        )

    def request(self) -> HttpRequest:
        """Return the request without its body. Raises HttpError if it is invalid."""
        if self.error is not None:
            raise self.error
        path, _, query = self.url.decode("latin-1").partition("?")
        most = self._limits.query_count
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=most)
        except ValueError:
            raise HttpError(400, f"the query has more than {most} parameters") from None
        text = unquote(path) if "%" in path else path
        return HttpRequest(self.method, text, tuple(pairs), self.headers, raw_path=path)

    def check_host(self, hosts: frozenset[str]) -> None:
        """Raises HttpError for another Host than `hosts` and loopback addresses; none: any is valid.

        `.example` means all names one label below. A web page could point its own name to this server (DNS
        rebinding).
        """
        if not hosts:
            return
        host = self.headers.get("host", "")
        name = host_name(host)
        served = hosts.intersection((name.lower(), f".{name.lower().partition('.')[2]}"))
        if not served and not _is_loopback(name):
            raise HttpError(403, f"the host {host!r} is not served here")

    def body(self) -> bytes:
        return b"".join(self._body)

    def drop_body(self) -> None:
        self._body.clear()

    def missing(self) -> int | None:
        """Announced bytes of the body that are not received yet; None for a chunked body."""
        return None if self.length is None else self.length - self._size

    async def received(self) -> None:
        """Return when the request is complete or has failed."""
        while not self.complete and self.error is None:
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed

    # ── for the parser ───────────────────────────────────────────────────────────────────
    def finish(self, error: HttpError | None = None) -> None:
        """Mark the request complete, or failed."""
        self.complete = True
        self.error = self.error or error
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def add_header(self, name: bytes, value: bytes) -> None:
        self._head_count += 1
        self.count_head(len(name) + len(value))
        if self._head_complete:
            return  # Ignore trailers: the request is authenticated by its headers only.
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
        text = self.headers.get("content-length", "0")
        # llhttp has refused everything that is not a number; 20 digits are too many in any case.
        self.length = int(text) if len(text) < 20 and text.isdigit() else self._too_large()
        if self.length > self._limits.body_bytes:
            self._too_large()

    def add_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._limits.body_bytes:
            self._too_large()
        self._body.append(body)

    def count_head(self, size: int) -> None:
        self._head_size += size
        if (
            self._head_size > self._limits.head_bytes
            or self._head_count > self._limits.header_count
        ):
            self._fail(HttpError(*HEAD_TOO_LARGE))

    def _too_large(self) -> NoReturn:
        limit = self._limits.body_bytes
        self._fail(HttpError(413, f"Request entity too large: limit is {limit}"))

    def _fail(self, error: HttpError) -> NoReturn:
        self.error = error
        raise error


def host_name(host: str) -> str:
    """The name or address in a Host header, without the port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False
