"""Takes what a Pod posts to its own localhost, and appends it to a file of the Pod.

The agent listens inside the Pod's network namespace, so that only the Pod can reach it. A Pod on the
machine's own network has none: then nothing is taken.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from pathlib import Path
from typing import Final

from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, text_response
from manta.httpserver.server import HttpServer
from manta.localplane.append import append_line
from manta.localplane.node.sandbox.launcher import Launcher

log = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
MAX_FILE: Final = 2048 * _MIB
"""Bytes of the file of one Pod. Beyond that, posts are refused, and the log says so."""
LIMITS: Final = Limits(
    body_bytes=32 * _MIB,
    client_bytes=64 * _MIB,
    total_bytes=64 * _MIB,
    connections=16,
    anonymous_connections=16,
    anonymous_connections_per_address=16,
    anonymous_request_seconds=60.0,
    anonymous_idle_seconds=120.0,
)


class PostReceiver(Handler):
    def __init__(self, file: Path) -> None:
        self._file = file
        self._server = HttpServer(self, limits=LIMITS)
        self._full = False
        self._lock = threading.Lock()

    async def open(self, launcher: Launcher, pid: int, port: int) -> None:
        """Listen on localhost of the Pod whose init is `pid`. Raises OSError."""
        listener = await launcher.make_socket(socket.AF_INET, socket.SOCK_STREAM, pid=pid)
        try:
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
            await self._server.start_on(listener)
        except BaseException:
            listener.close()
            raise

    async def close(self) -> None:
        await self._server.stop(0.1)

    def abandon(self) -> None:
        """Stop listening at once: the agent ends, and the next one listens again."""
        self._server.abort()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return text_response(404, "events are sent with POST\n")
        try:
            kept = await asyncio.to_thread(self._append, request.body)
        except OSError as error:  # who posts sends it again
            log.warning("%s: a post is not kept: %s", self._file, error)
            return text_response(503, f"{error}\n")
        if not kept:
            return text_response(503, "the file of posted events is full\n")
        return text_response(200, "")

    def _append(self, body: bytes) -> bool:
        """Append one line. A line break inside JSON is only white space. Raises OSError."""
        size = self._file.stat().st_size if self._file.exists() else 0
        if size + len(body) > MAX_FILE:
            if not self._full:
                log.warning("%s has %d bytes: further posts are refused", self._file, size)
            self._full = True
            return False
        with self._lock:  # taking back half a line would take back another's after it
            append_line(self._file, body.replace(b"\n", b" ") + b"\n")
        return True
