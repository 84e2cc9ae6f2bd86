"""Nobody is left with an open socket when a start is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from manta.localplane.node.net.sockets import machine_listener, serve_on


async def _ignore(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_a_server_that_is_cancelled_while_it_starts_closes_its_listener() -> None:
    listener = machine_listener("127.0.0.1", 0)
    starting = asyncio.create_task(serve_on(listener, _ignore))
    await asyncio.sleep(0)  # it listens, and waits for the event loop to see that
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert listener.fileno() == -1


async def test_a_server_serves_until_it_is_closed() -> None:
    listener = machine_listener("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = await serve_on(listener, _ignore)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
