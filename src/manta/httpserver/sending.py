"""Writes responses to one transport, no faster than the client reads them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace

from manta.httpserver.budget import Reservation
from manta.httpserver.limits import Limits
from manta.httpserver.messages import Headers, HttpResponse
from manta.httpserver.request import IncomingRequest
from manta.httpserver.response import response_head

_WRITE_BYTES = 64 * 1024
"""Written at a time: the TLS layer copies what it is given."""
_COMPRESS_ABOVE_BYTES = 128 * 1024
"""Larger bodies are compressed for clients that accept it."""


class ResponseSender:
    def __init__(self, limits: Limits, default_headers: Headers) -> None:
        self._limits = limits
        self._default_headers = default_headers
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set when connected
        self.streaming = False
        self._drained: asyncio.Future[None] | None = None

    # ── the transport's side ─────────────────────────────────────────────────────────────
    def pause(self) -> None:
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def lost(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError("the client closed the connection"))

    # ── sending ──────────────────────────────────────────────────────────────────────────
    async def send(
        self,
        response: HttpResponse,
        incoming: IncomingRequest,
        reservation: Reservation,
        *,
        keep_alive: bool,
    ) -> None:
        """Raises UnsafeHeaderError before anything is sent; ConnectionError and TimeoutError."""
        body = response.body
        if not isinstance(body, bytes):
            async with contextlib.aclosing(body) as chunks:  # type: ignore[type-var]
                self.transport.write(self._head(response, None, keep_alive=keep_alive))
                if incoming.method != "HEAD":
                    await self._stream(chunks, reservation)
            return
        # Content-Range counts bytes of the body as it is, so a partial one stays uncompressed.
        if len(body) > _COMPRESS_ABOVE_BYTES and response.status != 206 and incoming.accepts_gzip():
            body = await asyncio.to_thread(gzip.compress, body, 1)
            more = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
            response = replace(response, headers=response.headers + more)
        head = self._head(response, len(body), keep_alive=keep_alive)
        if incoming.method == "HEAD":
            body = b""
        reservation.resize(len(body))
        if len(body) < _WRITE_BYTES:
            await self._write(head + body)
        else:
            await self._write(head, body)

    def _head(self, response: HttpResponse, length: int | None, *, keep_alive: bool) -> bytes:
        return response_head(response, length, self._default_headers, keep_alive=keep_alive)

    async def _stream(self, chunks: AsyncIterator[bytes], reservation: Reservation) -> None:
        self.streaming = True
        timeout = self._limits.stream_seconds
        reservation.resize(0)
        async for chunk in chunks:
            if not chunk:
                continue
            reservation.resize(len(chunk))
            if len(chunk) < _WRITE_BYTES:
                await self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk), timeout=timeout)
            else:
                await self._write(b"%x\r\n" % len(chunk), chunk, b"\r\n", timeout=timeout)
            reservation.resize(0)
            await reservation.wait_for()
        await self._write(b"0\r\n\r\n")
        self.streaming = False

    async def _write(self, *parts: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        for part in parts:
            view = memoryview(part) if len(part) > _WRITE_BYTES else part
            for start in range(0, len(view), _WRITE_BYTES):
                self.transport.write(view[start : start + _WRITE_BYTES])
                await self.drain(timeout or self._limits.request_seconds)

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until the client has read enough. Raises ConnectionError and TimeoutError."""
        if self.transport.is_closing():
            raise ConnectionResetError("the client closed the connection")
        if self._drained is not None:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._drained)
