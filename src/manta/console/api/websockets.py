"""Hands the bytes of a WebSocket on, between a caller and a Service of Ray."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from manta.console.api.forwarding import unreachable
from manta.console.api.headers import RESPONSE_HEADERS, accepted
from manta.console.api.statuses import refusal
from manta.httpserver.messages import HttpResponse
from manta.httpserver.upgrade import UpgradedConnection, switching_protocols
from manta.kube.errors import Unreachable
from manta.kube.transport import HttpTransport, Request
from manta.kube.upgraded import Upgraded

_CHUNK: Final = 64 * 1024
_SWITCHED: Final = 101


async def passed_websocket(
    transport: HttpTransport, request: Request, connection: UpgradedConnection
) -> HttpResponse | None:
    """None when the WebSocket has ended; a response if there was none."""
    try:
        async with transport.upgraded(request) as opened:
            if opened.status != _SWITCHED:
                why = f"{opened.status}: the Service does not speak WebSocket at this address"
                return refusal(
                    opened.status if opened.status >= 400 else 502, why, RESPONSE_HEADERS
                )
            connection.write(switching_protocols(accepted(opened.headers)))
            await _until_one_ends(opened, connection)
    except Unreachable as error:
        return unreachable(request, error)
    return None


async def _until_one_ends(opened: Upgraded, connection: UpgradedConnection) -> None:
    """A side that reads slowly makes the other one wait."""

    async def to_service(data: bytes) -> None:
        opened.writer.write(data)
        await opened.writer.drain()

    async def to_caller(data: bytes) -> None:
        connection.write(data)
        await connection.drain()

    ways = [
        asyncio.create_task(_copied(connection.reader.read, to_service)),
        asyncio.create_task(_copied(opened.reader.read, to_caller)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copied(
    read: Callable[[int], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]
) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await read(_CHUNK):
            await write(data)
