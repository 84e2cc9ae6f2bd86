"""The cluster's DNS server on the bridge, UDP and TCP. Forwards other names to the machine's servers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from manta.localplane.node.net.relay import ConnectionSet
from manta.localplane.node.net.sockets import serve_on
from manta.localplane.node.services.dns_messages import (
    FORMERR,
    SERVFAIL,
    MalformedQuery,
    Question,
    Reply,
    parse_question,
    render,
    render_failure,
)
from manta.localplane.node.services.dns_zone import Zone

_PORT = 53
_UPSTREAM_TIMEOUT = 2.0
_TCP_LIMIT = 65535
_ADDRESS = tuple[str, int]
Exchange = Callable[[bytes, str], Awaitable[bytes]]
"""(query, name server) -> response."""


class DnsServer:
    def __init__(self, zone: Zone, upstreams: Sequence[str]) -> None:
        self._zone = zone
        self._upstreams = tuple(upstreams)
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients = ConnectionSet()

    async def start(self, datagrams: socket.socket, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), sock=datagrams)
        self._tcp = await serve_on(
            listener,
            lambda reader, writer: self._clients.hold(self._serve_stream(reader, writer), writer),
        )

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._udp is not None:
            self._udp.close()
        if self._tcp is not None:
            self._tcp.close()
        self._clients.close()

    # ── queries ────────────────────────────────────────────────────────────────────────
    def received(self, packet: bytes, client: _ADDRESS) -> None:
        """Handle a datagram. Names of the cluster are answered at once, without a task."""
        answer = self._from_zone(packet, limit=512)
        if answer is not None:
            self._send(answer, client)
            return
        task = asyncio.create_task(self._forward_for(packet, client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, answer: bytes, client: _ADDRESS) -> None:
        if self._udp is not None:
            self._udp.sendto(answer, client)

    def _from_zone(self, packet: bytes, *, limit: int) -> bytes | None:
        try:
            question = parse_question(packet)
        except MalformedQuery:
            return render_failure(packet, FORMERR)
        reply = self._zone.answer(question)
        return None if reply is None else render(question, reply, limit=limit)

    async def _forward_for(self, packet: bytes, client: _ADDRESS) -> None:
        self._send(await self._forward(packet, _exchange), client)

    async def _forward(self, packet: bytes, exchange: Exchange) -> bytes:
        """The first response of the machine's name servers, or SERVFAIL."""
        for upstream in self._upstreams:
            try:
                async with asyncio.timeout(_UPSTREAM_TIMEOUT):
                    return await exchange(packet, upstream)
            except (OSError, EOFError, TimeoutError):
                continue
        return _failure(packet)

    async def _serve_stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                packet = await reader.readexactly(length)
                answer = self._from_zone(packet, limit=_TCP_LIMIT)
                if answer is None:
                    answer = await self._forward(packet, _exchange_by_stream)
                writer.write(struct.pack("!H", len(answer)) + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server.received(data, addr)


def _failure(packet: bytes) -> bytes:
    try:
        question: Question = parse_question(packet)
    except MalformedQuery:
        return render_failure(packet, FORMERR)
    return render(question, Reply(SERVFAIL))


async def _exchange(packet: bytes, upstream: str) -> bytes:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.setblocking(False)
        await loop.sock_connect(channel, (upstream, _PORT))
        await loop.sock_sendall(channel, packet)
        while True:
            answer = await loop.sock_recv(channel, 4096)
            if answer[:2] == packet[:2]:
                return answer


async def _exchange_by_stream(packet: bytes, upstream: str) -> bytes:
    """A client that uses TCP has had a truncated UDP response, so query the name server by TCP too."""
    reader, writer = await asyncio.open_connection(upstream, _PORT)
    try:
        writer.write(struct.pack("!H", len(packet)) + packet)
        await writer.drain()
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        return await reader.readexactly(length)
    finally:
        writer.transport.abort()


def machine_name_servers(path: Path = Path("/etc/resolv.conf")) -> tuple[str, ...]:
    """The IPv4 name servers that the machine uses."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ()
    words = (line.split() for line in lines)
    return tuple(
        found[1]
        for found in words
        if len(found) > 1 and found[0] == "nameserver" and ":" not in found[1]
    )
