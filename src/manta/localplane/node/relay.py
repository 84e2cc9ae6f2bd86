"""Copies bytes between two connections until both directions have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK = 64 * 1024


class Conversations:
    """What a server says to its clients at the moment; `close` ends all of it.

    A task that asyncio made for a client must not be seen cancelled: Python 3.11 logs that as an error.
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


async def relay(one: Streams, other: Streams) -> None:
    """A side that ends its sending is told to the other; an error ends both."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(one[0], other[1]))
            group.create_task(_copy(other[0], one[1]))
    except* OSError:
        pass
    finally:
        await hang_up(one[1])
        await hang_up(other[1])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
