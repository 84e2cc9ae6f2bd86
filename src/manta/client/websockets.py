"""WebSockets as bytes, between a caller and a Service behind the proxy of the API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from manta.httpserver.upgrade import UpgradedConnection
from manta.kube.upgraded import Upgraded

SWITCHED: Final = 101
WEBSOCKET: Final = "websocket"
_CHUNK_BYTES: Final = 64 * 1024
_HANDSHAKE: Final = (
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
)
_ACCEPTED: Final = ("sec-websocket-accept", "sec-websocket-protocol", "sec-websocket-extensions")
_UPGRADE: Final = {"Connection": "Upgrade", "Upgrade": WEBSOCKET}


def asks_for_websocket(headers: Mapping[str, str]) -> bool:
    return headers.get("upgrade", "").lower() == WEBSOCKET


def handshake(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a caller that open the WebSocket, for the Service."""
    return {name: headers[name] for name in _HANDSHAKE if name in headers} | _UPGRADE


def accepted(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The headers that are forwarded of a Service's answer that switches to WebSockets: no cookie, nothing else."""
    return [*_UPGRADE.items(), *((name, headers[name]) for name in _ACCEPTED if name in headers)]


async def copy_until_one_ends(opened: Upgraded, connection: UpgradedConnection) -> None:
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
        while data := await read(_CHUNK_BYTES):
            await write(data)
