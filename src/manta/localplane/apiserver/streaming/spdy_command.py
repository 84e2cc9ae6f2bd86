"""Exec and attach over SPDY: one stream each for stdin, stdout, stderr, error and resize."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from manta.localplane.apiserver.streaming.remote_command import (
    CommandOptions,
    error_payload,
    read_size,
)
from manta.localplane.apiserver.streaming.spdy import SpdyStream

PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
STREAMS_TIMEOUT_SECONDS = 30.0


class SpdyCommandStreams:
    """Collects the streams that the client opens; `ready` returns when all needed ones are open."""

    def __init__(self, options: CommandOptions, protocol: str) -> None:
        self._v4 = protocol.startswith("v4")
        self._needed = {"error"}
        self._needed |= {"stdin"} if options.stdin else set()
        self._needed |= {"stdout"} if options.stdout else set()
        self._needed |= {"stderr"} if options.stderr and not options.tty else set()
        self._needed |= {"resize"} if options.tty and protocol[:2] in ("v3", "v4") else set()
        self._streams: dict[str, SpdyStream] = {}
        self._complete = asyncio.Event()

    async def add(self, stream: SpdyStream) -> None:
        self._streams[stream.headers.get("streamtype", "")] = stream
        if self._needed <= self._streams.keys():
            self._complete.set()

    async def ready(self) -> None:
        async with asyncio.timeout(STREAMS_TIMEOUT_SECONDS):
            await self._complete.wait()

    async def stdin(self) -> bytes:
        stream = self._streams.get("stdin")
        return await stream.read() if stream is not None else b""

    async def resize(self) -> tuple[int, int] | None:
        stream = self._streams.get("resize")
        if stream is None:
            return None
        while data := await stream.read():
            size = read_size(data)
            if size is not None:
                return size
        return None

    async def stdout(self, data: bytes) -> None:
        stream = self._streams.get("stdout")
        if stream is not None:
            await stream.write(data)

    async def stderr(self, data: bytes) -> None:
        stream = self._streams.get("stderr")
        if stream is not None:
            await stream.write(data)

    async def finish(self, status: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):
            error = self._streams.get("error")
            if error is not None and (payload := error_payload(status, as_status=self._v4)):
                await error.write(payload)
            for stream in self._streams.values():
                await stream.finish()
