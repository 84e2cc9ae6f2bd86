"""The cluster's DNS server on the bridge, UDP and TCP. Forwards other names to the machine's servers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from manta.api.core import Service
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
from manta.localplane.node.services.dns_zone import Zone, addresses_reply

_PORT = 53
_UPSTREAM_TIMEOUT_SECONDS = 2.0
_UDP_LIMIT, _TCP_LIMIT = 512, 65535
_ADDRESS = tuple[str, int]
Exchange = Callable[[bytes, str], Awaitable[bytes]]
"""(query, name server) -> response."""
StandIn = Callable[[Service], Awaitable[str]]
"""The address that stands in for a headless Service without endpoints; empty: none does."""


class DnsServer:
    def __init__(
        self, zone: Zone, upstreams: Sequence[str], stand_in: StandIn | None = None
    ) -> None:
        self._zone = zone
        self._stand_in = stand_in
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
        """Handle a datagram. Most names of the cluster are answered at once, without a task."""
        answer = None if self._may_sleep(packet) else self._from_zone(packet, limit=_UDP_LIMIT)
        if answer is not None:
            self._send(answer, client)
            return
        task = asyncio.create_task(self._answer_later(packet, client))
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

    def _may_sleep(self, packet: bytes) -> tuple[Question, Service] | None:
        if self._stand_in is None:
            return None
        try:
            question = parse_question(packet)
        except MalformedQuery:
            return None
        service = self._zone.without_endpoints(question)
        return (question, service) if service is not None else None

    async def _answer(self, packet: bytes, limit: int, exchange: Exchange) -> bytes:
        found = self._may_sleep(packet)
        if found is not None and self._stand_in is not None:
            question, service = found
            if address := await self._stand_in(service):
                return render(question, addresses_reply(question.name, [address]), limit=limit)
        answer = self._from_zone(packet, limit=limit)
        return answer if answer is not None else await self._forward(packet, exchange)

    async def _answer_later(self, packet: bytes, client: _ADDRESS) -> None:
        self._send(await self._answer(packet, _UDP_LIMIT, _exchange), client)

    async def _forward(self, packet: bytes, exchange: Exchange) -> bytes:
        """The first response of the machine's name servers, or SERVFAIL."""
        for upstream in self._upstreams:
            try:
                async with asyncio.timeout(_UPSTREAM_TIMEOUT_SECONDS):
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
                answer = await self._answer(packet, _TCP_LIMIT, _exchange_by_stream)
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
