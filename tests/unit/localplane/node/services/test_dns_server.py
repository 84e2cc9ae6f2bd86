"""Questions that the cluster's DNS server passes on to the machine's name servers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from manta.localplane.node.services import dns_server
from manta.localplane.node.services.dns_server import DnsServer

NAME = b"\x07example\x03org\x00\x00\x10\x00\x01"  # TXT
QUERY = struct.pack("!HHHHHH", 77, 0x0100, 1, 0, 0, 0) + NAME
TRUNCATED = struct.pack("!HHHHHH", 77, 0x8380, 1, 0, 0, 0) + NAME
LONG = struct.pack("!HHHHHH", 77, 0x8180, 1, 1, 0, 0) + NAME + b"x" * 5000


class _NoZone:
    def answer(self, _: object) -> None:
        return None

    def without_endpoints(self, _: object) -> None:
        return None


class _Upstream(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._transport.sendto(TRUNCATED, addr)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answer_whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    (length,) = struct.unpack("!H", await reader.readexactly(2))
    assert await reader.readexactly(length) == QUERY
    writer.write(struct.pack("!H", len(LONG)) + LONG)
    await writer.drain()
    writer.close()


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def upstream(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A name server whose UDP answers are truncated, and ours before it: the port of its TCP side."""
    loop = asyncio.get_running_loop()
    streams = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = streams.sockets[0].getsockname()[1]
    datagrams, _ = await loop.create_datagram_endpoint(_Upstream, ("127.0.0.1", port))
    monkeypatch.setattr(dns_server, "_PORT", port)
    ours = DnsServer(cast("Any", _NoZone()), ["127.0.0.1"])
    listener = socket.create_server(("127.0.0.1", 0))
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("127.0.0.1", 0))
    own.setblocking(False)
    try:
        await ours.start(own, listener)
        yield listener.getsockname()[1]
    finally:
        await ours.stop()
        datagrams.close()
        streams.close()


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(struct.pack("!H", len(QUERY)) + QUERY)
    (length,) = struct.unpack("!H", await reader.readexactly(2))
    answer = await reader.readexactly(length)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_question_over_tcp_is_passed_on_over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: over UDP the long answer comes back truncated, for ever."""
    async with upstream(answer_whole, monkeypatch) as port:
        assert await ask(port) == LONG


async def test_a_name_server_that_hangs_up_is_a_quick_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with upstream(hang_up, monkeypatch) as port:
        answer = await ask(port)
    assert answer[:2] == QUERY[:2]
    assert answer[3] & 0x0F == 2  # SERVFAIL
