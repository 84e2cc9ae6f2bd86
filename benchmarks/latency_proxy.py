"""A TCP proxy that delays every byte in both directions by a fixed time, and changes none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit


class _End(asyncio.Protocol):
    """One of the two ends of a connection."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._loop = asyncio.get_running_loop()
        self._sent: deque[bytes] = deque()
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no child of it

    def data_received(self, data: bytes) -> None:
        self._later(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._later(b"")

    def _later(self, data: bytes) -> None:
        """In the order in which it came, whatever the timers do."""
        self._sent.append(data)
        self._loop.call_later(self._delay, self._arrive)

    def _arrive(self) -> None:
        data = self._sent.popleft()
        there = self.other.transport if self.other else None
        if there is None or there.is_closing():
            return
        if data:
            there.write(data)
        else:
            there.close()


class _Near(_End):
    """The client's end: its first bytes wait until the far end is connected."""

    def __init__(self, delay: float, host: str, port: int) -> None:
        super().__init__(delay)
        self._where = (host, port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()  # type: ignore[union-attr]
        self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        assert self.transport is not None
        try:
            _, far = await self._loop.create_connection(lambda: _End(self._delay), *self._where)
        except OSError:
            self.transport.close()
            return
        self.other, far.other = far, self
        if self.transport.is_closing():
            assert far.transport is not None
            far.transport.close()
        self.transport.resume_reading()


@asynccontextmanager
async def latency_proxy(server: str, delay: float) -> AsyncIterator[str]:
    """An address at which `server` answers, `delay` seconds away in each direction."""
    parts = urlsplit(server)
    assert parts.hostname is not None
    host, port = parts.hostname, parts.port or 443
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Near(delay, host, port), "127.0.0.1", 0)
    try:
        yield f"{parts.scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
