"""An HTTP server on 127.0.0.1 that passes requests on to one path of the API server.

Only for programs of this machine that mean it: other Host names are refused (a page of the internet
could otherwise rebind its name to 127.0.0.1), and so are changes that another site's page asks for.
"""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.transport import Response

USUAL_PORT = 8265
PATIENCE = 60.0
LARGEST_BODY = 64 * 1024 * 1024
_PASSED_ON = ("accept", "content-type", "authorization", "if-none-match", "range")
_PASSED_BACK = ("content-type", "cache-control", "etag", "last-modified", "content-range")
_READS = frozenset(("GET", "HEAD"))


class LocalProxy:
    """`async with LocalProxy(client, base, port) as proxy`: serves until it is left."""

    def __init__(self, client: Client, base: str, port: int = 0) -> None:
        self._client = client
        self._base = base.rstrip("/")
        self._wish = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}/"

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = _listen(self._wish, _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None and self._thread is not None:
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()

    def pass_on(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Response:
        """From a thread of the server: waits for the answer of the loop."""
        parts = urlsplit(target)
        sending = self._client.send(
            method,
            f"{self._base}/{parts.path.lstrip('/')}",
            query=tuple(parse_qsl(parts.query, keep_blank_values=True)),
            headers=headers,
            body=body or None,
            timeout=PATIENCE,
            check=False,
        )
        return asyncio.run_coroutine_threadsafe(sending, self._loop).result()


def _listen(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """On the port that is asked for; else on Ray's own, or on a free one where that is taken."""
    for wish in (port,) if port else (USUAL_PORT, 0):
        try:
            server = ThreadingHTTPServer(("127.0.0.1", wish), handler)
        except OSError as error:
            if wish == port and port:
                raise UsageError(
                    f"--port {port}: {error.strerror}; choose another, or leave it out"
                ) from error
            continue
        server.daemon_threads = True
        return server
    raise UsageError("no port of 127.0.0.1 is free")


def refusal(method: str, headers: dict[str, str], port: int) -> str:
    """Why a request is not passed on; empty: it is. Header names in lower case."""
    ours = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
    if headers.get("host", "") not in ours:
        return f"this port is for http://127.0.0.1:{port}/ only"
    origin = headers.get("origin", "")
    if method not in _READS and origin and urlsplit(origin).netloc not in ours:
        return f"a page of {origin} may not change anything here"
    return ""


def _handler(proxy: LocalProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if why := refusal(self.command, headers, self.connection.getsockname()[1]):
                self._write(403, {}, why.encode())
                return
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > LARGEST_BODY:
                self.close_connection = True
                self._write(413, {}, b"the body has no usable length, or is too large")
                return
            body = self.rfile.read(int(length))
            passed = {name: headers[name] for name in _PASSED_ON if name in headers}
            try:
                answer = proxy.pass_on(self.command, self.path, passed, body)
            except (MantaError, ValueError) as error:
                self._write(502, {}, str(error).encode())
                return
            back = {n: answer.headers[n] for n in _PASSED_BACK if n in answer.headers}
            self._write(answer.status, back, answer.body)

        def _write(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nobody reads a line for each picture of a page."""

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    return Handler
