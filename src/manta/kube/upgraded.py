"""A connection after `101 Switching Protocols`: its bytes, not its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from manta.kube.connection_pool import CONNECT_TIMEOUT_SECONDS, Endpoint, NotConnected
from manta.kube.http1 import ConnectionBroken

HEAD_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Upgraded:
    status: int
    """101; another one: the server refused, and its answer follows."""
    headers: Mapping[str, str]
    """Names in lower case; of repeated ones the last."""
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def open_upgraded(endpoint: Endpoint, request: bytes, seconds: float | None) -> Upgraded:
    """Send a request on a connection of its own, which the caller closes.

    Raises NotConnected if the server cannot have received it, else ConnectionBroken and TimeoutError.
    """
    host, port, tls, name = endpoint
    server_name = (name or host) if tls else None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=tls, server_hostname=server_name, limit=HEAD_LIMIT_BYTES
            )
    except (OSError, TimeoutError) as error:
        raise NotConnected(str(error) or "connecting timed out") from error
    try:
        async with asyncio.timeout(seconds):
            writer.write(request)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
        status, headers = _read(head)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        writer.close()
        raise ConnectionBroken(f"no answer to the upgrade: {error}") from error
    except BaseException:
        writer.close()
        raise
    return Upgraded(status, headers, reader, writer)


def _read(head: bytes) -> tuple[int, dict[str, str]]:
    """Raises ValueError if it is no head of an answer."""
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}
