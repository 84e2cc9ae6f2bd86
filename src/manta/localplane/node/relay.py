"""Copies bytes between two connections until both directions have ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK = 64 * 1024


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
