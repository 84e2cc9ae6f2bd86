"""Copies bytes between two connections until both directions have ended."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK_BYTES = 64 * 1024
_ENDED = frozenset((7, 8))
"""TCP_CLOSE and TCP_CLOSE_WAIT of Linux."""


class ConnectionSet:
    """The open client connections of a server; `close` ends them all.

    The task that asyncio starts for a client must not end as cancelled: Python 3.11 logs that as an error.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def hold(self, conversation: Awaitable[None], writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await conversation
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()


def has_left(client: Streams) -> bool:
    """Whether a client whose data nobody has read yet has closed its side. What it sent before hides the end
    from the stream, so the socket is asked."""
    reader, writer = client
    if reader.at_eof() or writer.transport.is_closing():
        return True
    found = writer.get_extra_info("socket")
    try:
        state = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except (AttributeError, OSError):  # not Linux, or not TCP
        return False
    return state[0] in _ENDED


async def relay(one: Streams, other: Streams) -> None:
    """Copy both ways. The end of one side's data is passed on; an error closes both connections."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(one[0], other[1]))
            group.create_task(_copy(other[0], one[1]))
    except* OSError:
        pass
    finally:
        await close_connection(one[1])
        await close_connection(other[1])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def close_connection(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
