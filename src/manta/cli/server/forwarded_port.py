"""A TCP port of 127.0.0.1 whose connections end at a port of a Pod.

The Pod is looked up for each connection, so a replaced head is found again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.kube.errors import MantaError
from manta.kube.port_forward import PortConnection, port_forward
from manta.kube.transport import UpgradingTransport

CHUNK_BYTES = 64 * 1024
FindPod = Callable[[], Awaitable[Key]]
Note = Callable[[str], None]


class ForwardedPort:
    """`async with ForwardedPort(...) as port`: forwards until the block ends."""

    def __init__(
        self, transport: UpgradingTransport, find_pod: FindPod, remote: int, note: Note
    ) -> None:
        """`note` is called with what happens to connections."""
        self._transport = transport
        self._find_pod = find_pod
        self._note = note
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.remote = remote
        self.local = 0

    async def listen(self, local: int | None) -> Self:
        """Listen on this port; None: on the remote number, or a free port if that is taken.

        Raises UsageError if the port that the user chose is taken.
        """
        for port in (local,) if local is not None else (self.remote, 0):
            try:
                self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
            except OSError as error:
                if local is None and port:
                    continue
                why = os.strerror(error.errno or 0)
                raise UsageError(f"port {port} of 127.0.0.1: {why}; choose another") from error
            self.local = self._server.sockets[0].getsockname()[1]
            return self
        raise UsageError("no port of 127.0.0.1 is free")

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: asyncio reports a cancelled one of its own as an error.
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._forward(reader, writer)
        except (MantaError, OSError) as error:
            self._note(f"connection to port {self.remote}: {error}")
        finally:
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pod = await self._find_pod()
        async with port_forward(self._transport, pod, self.remote) as remote:
            outward = asyncio.create_task(_copy_out(reader, remote))
            inward = asyncio.create_task(_copy_in(remote, writer))
            try:
                await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (outward, inward):
                    if not task.done():
                        task.cancel()
                results = await asyncio.gather(outward, inward, return_exceptions=True)
        for result in results:
            if isinstance(result, MantaError):
                raise result


async def _copy_out(reader: asyncio.StreamReader, remote: PortConnection) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK_BYTES):
            await remote.write(data)


async def _copy_in(remote: PortConnection, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        async for data in remote.chunks():
            writer.write(data)
            await writer.drain()
