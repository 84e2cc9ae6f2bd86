"""A `PageServer` on a free port, and requests to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from manta.httpserver.address import Address
from manta.runtime.health import Pages, PageServer


@asynccontextmanager
async def serving(pages: Pages) -> AsyncIterator[PageServer]:
    server = PageServer(Address("127.0.0.1", 0), pages)
    task = asyncio.create_task(server.run())
    await server.listening.wait()
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(server: PageServer, head: str) -> bytes:
    """Send a request line and headers; return the whole response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer
