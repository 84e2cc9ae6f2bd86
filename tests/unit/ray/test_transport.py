"""The transport reads a whole reply over a real socket, or says why it cannot."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from manta.ray import transport
from manta.ray.models import Target, Unreachable
from manta.ray.transport import DirectTransport, Reply

Speak = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def head(speak: Speak) -> AsyncIterator[Target]:
    """A dashboard that answers one request with what `speak` writes."""
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await speak(writer)
        except asyncio.IncompleteReadError:
            pass  # who asked went away without a question
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            served.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Target("ns", "svc", "127.0.0.1", server.sockets[0].getsockname()[1])
        await served.wait()


async def brought(target: Target) -> Reply | Unreachable:
    direct = DirectTransport(timeout=20)
    try:
        return await direct.send(target, "GET", "/api/jobs/id")
    finally:
        await direct.close()


def measured(length: int) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode()


async def test_a_reply_in_two_parts_is_read_whole() -> None:
    async def in_two_parts(writer: asyncio.StreamWriter) -> None:
        writer.write(measured(8) + b"half")
        await writer.drain()
        await asyncio.sleep(0.1)  # or the two would share a packet
        writer.write(b"half")
        await writer.drain()

    async with head(in_two_parts) as target:
        assert await brought(target) == Reply(200, b"halfhalf")


async def test_a_truncated_reply_is_unreachable() -> None:
    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(measured(8) + b"half")
        await writer.drain()

    async with head(half) as target:
        assert isinstance(await brought(target), Unreachable)


@pytest.mark.parametrize(("length", "fits"), [(64, True), (65, False)])
async def test_a_reply_beyond_the_limit_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, length: int, fits: bool
) -> None:
    monkeypatch.setattr(transport, "MAX_REPLY_BYTES", 64)

    async def long(writer: asyncio.StreamWriter) -> None:
        writer.write(measured(length) + b"x" * length)
        await writer.drain()

    async with head(long) as target:
        answer = await brought(target)
    if fits:
        assert answer == Reply(200, b"x" * length)
    else:
        assert isinstance(answer, Unreachable)
        assert "more than 64 bytes" in answer.why


async def test_an_invalid_token_is_unreachable() -> None:
    async def nothing(_: asyncio.StreamWriter) -> None: ...

    async with head(nothing) as target:
        answer = await brought(dataclasses.replace(target, token="se\ncret"))
    assert isinstance(answer, Unreachable)
    assert "ValueError" in answer.why
    assert "cret" not in answer.why
