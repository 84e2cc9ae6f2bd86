"""An HTTP server on 127.0.0.1 that forwards requests to one path of the API server.

It refuses other Host names (DNS rebinding) and cross-site writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Self
from urllib.parse import urlsplit

from manta.api.usage import UsageError
from manta.client.websockets import (
    SWITCHED,
    accepted,
    asks_for_websocket,
    copy_until_one_ends,
    handshake,
)
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, text_response
from manta.httpserver.server import HttpServer
from manta.httpserver.upgrade import UpgradedConnection, switching_protocols
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.transport import PassingTransport, Request

DASHBOARD_PORT = 8265
TIMEOUT_SECONDS = 330.0
"""A cluster that sleeps is woken by the first request, which is answered when it is ready."""
_MAX_BODY_BYTES = 64 * 1024 * 1024
_LIMITS = Limits(
    body_bytes=_MAX_BODY_BYTES, client_bytes=2 * _MAX_BODY_BYTES, total_bytes=2 * _MAX_BODY_BYTES
)
_REQUEST_HEADERS = ("accept", "content-type", "authorization", "if-none-match", "range")
_RESPONSE_HEADERS = ("cache-control", "etag", "last-modified", "content-range")
_READS = frozenset(("GET", "HEAD"))
_SLASH = r"(?:[/\\]|%2f|%5c)"
_LEADS_OUT = re.compile(rf"{_SLASH}(?:\.|%2e){{1,2}}(?:{_SLASH}|$)", re.IGNORECASE)
"""`.` or `..` as a part of a path: a gateway in front of the API server might resolve it."""


class LocalProxy(Handler):
    """`async with LocalProxy(client, base, port) as proxy`: serves until the block ends."""

    def __init__(self, client: Client, base: str, port: int = 0) -> None:
        self._client = client
        self._base = base.rstrip("/")
        self._port = port
        self._server = HttpServer(self, limits=_LIMITS)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    async def __aenter__(self) -> Self:
        """Listen on the port of the user, otherwise on Ray's own port or a free one.

        Raises UsageError if the port is taken.
        """
        for port in (self._port,) if self._port else (DASHBOARD_PORT, 0):
            try:
                self._port = await self._server.start("127.0.0.1", port)
            except OSError as error:
                if port == self._port and port:
                    why = os.strerror(error.errno or 0)
                    text = f"--port {port}: {why}; choose another, or leave it out"
                    raise UsageError(text) from error
                continue
            return self
        raise UsageError("no port of 127.0.0.1 is free")

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if why := self._refusal(request.method, request):
            return text_response(403, why)
        try:
            answer = await self._client.send(
                request.method,
                self._path(request),
                query=request.query,
                headers=_kept(request.headers),
                body=request.body or None,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except (MantaError, ValueError) as error:
            return text_response(502, str(error))
        kept = tuple((n, answer.headers[n]) for n in _RESPONSE_HEADERS if n in answer.headers)
        content_type = answer.headers.get("content-type", "")
        return HttpResponse(answer.status, answer.body, kept, content_type)

    async def upgrade(
        self, request: HttpRequest, connection: UpgradedConnection
    ) -> HttpResponse | None:
        """A WebSocket: `ray job submit` and `ray job logs -f` follow the log of a job by one."""
        transport = self._client.transport
        if not asks_for_websocket(request.headers) or not isinstance(transport, PassingTransport):
            return await self.handle(request)
        # POST: no page of another site may open one, as it could read what comes.
        if why := self._refusal("POST", request):
            return text_response(403, why)
        headers = _kept(request.headers) | handshake(request.headers)
        sent = Request("GET", self._path(request), request.query, headers, None, TIMEOUT_SECONDS)
        try:
            async with transport.upgraded(sent) as opened:
                if opened.status != SWITCHED:
                    return text_response(502, f"{opened.status}: no WebSocket at this address")
                connection.write(switching_protocols(accepted(opened.headers)))
                await copy_until_one_ends(opened, connection)
        except (MantaError, ValueError) as error:
            return text_response(502, str(error))
        return None

    def _refusal(self, method: str, request: HttpRequest) -> str:
        if _LEADS_OUT.search(f"/{request.raw_path}"):
            return "this path does not lead to the dashboard"
        return refusal(method, request.headers, self._port)

    def _path(self, request: HttpRequest) -> str:
        return f"{self._base}/{request.raw_path.lstrip('/')}"


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _REQUEST_HEADERS if name in headers}


def refusal(method: str, headers: Mapping[str, str], port: int) -> str:
    """Return why a request is not forwarded, or ''. Header names are in lower case."""
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
    if headers.get("host", "") not in hosts:
        return f"this port is for http://127.0.0.1:{port}/ only"
    origin = headers.get("origin", "")
    if method not in _READS and origin and urlsplit(origin).netloc not in hosts:
        return f"a page of {origin} is not allowed to write here"
    return ""
