"""Clients, and Pods, that misuse exec, attach, port-forward, logs and the proxy."""

from __future__ import annotations

import asyncio
import gc
import json
import struct
import tracemalloc
import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.httpserver.messages import HttpRequest
from manta.httpserver.upgrade import UpgradedConnection
from manta.localplane.apiserver.streaming.connector import ContainerUnavailable
from manta.localplane.apiserver.streaming.logs import _log_options
from manta.localplane.apiserver.streaming.spdy import DICTIONARY, SpdySession
from manta.localplane.node import connector as node_connector
from manta.localplane.node.pod.snapshot import ContainerFacts, Failure, Progress
from manta.localplane.node.sandbox.sessions import AttachSession, LineReader
from support.connector import LocalConnector
from support.contract import pod
from support.raw_http import raw_server

MIB = 1024 * 1024
POD = "/api/v1/namespaces/default/pods/p"


class Listener:
    """What listens in the Pod: keeps what it was sent, and answers as it was made to."""

    def __init__(self, answer=b"", *, reads=True, closes=True) -> None:
        self.heard: list[Any] = []
        self._answer = answer
        self._reads = reads
        self._closes = closes
        self.held: list[Any] = []

    async def __call__(self, reader, writer):
        if not self._reads:
            self.held.append((reader, writer))
            return
        self.heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        if self._closes:
            await writer.drain()
            writer.close()
        else:
            self.held.append((reader, writer))

    def headers(self):
        lines = self.heard[-1].decode().lower().split("\r\n")[1:]
        return dict(line.split(": ", 1) for line in lines if line)


@pytest.fixture
async def server(tmp_path):
    async with raw_server(tmp_path / "plane") as served:
        served.plane.connector = LocalConnector()
        await served.plane.client.create(PODS, "default", pod("p", nodeName="n1"))
        running = {"status": {"phase": "Running"}}
        await served.plane.client.patch(PODS, Key("default", "p"), running, subresource="status")
        yield served


@pytest.fixture
async def listen(server):
    """Have a Listener at port 8000 of the Pod."""
    opened = []

    async def start(listener) -> None:
        local = await asyncio.start_server(listener, "127.0.0.1", 0, limit=MIB)
        server.plane.connector.ports[8000] = local.sockets[0].getsockname()[1]
        opened.append((local, listener))

    yield start
    for local, listener in opened:
        for _, writer in listener.held:
            writer.transport.abort()
        local.close()
        await local.wait_closed()


async def upgraded(server, path, protocol):
    line = await server.connect()
    line.send(
        server.request(
            "GET",
            path,
            b"",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            f"Sec-WebSocket-Protocol: {protocol}",
        )
    )
    head = await line.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101"), head
    return line


def frame(payload):
    """With a mask of zeros, which changes nothing."""
    return b"\x82\xff" + struct.pack(">Q", len(payload)) + bytes(4) + payload


async def accepted(line, piece, most):
    """How many bytes a client can send until nothing moves any more."""
    sent = 0
    while sent < most:
        line.send(piece)
        try:
            async with asyncio.timeout(1.5):
                await line.writer.drain()
        except TimeoutError:
            break
        sent += len(piece)
    line.writer.transport.abort()
    return sent


# ── memory ───────────────────────────────────────────────────────────────────────────────
async def test_input_that_no_process_reads_waits_with_the_client(server) -> None:
    """X15: 64 messages of any size were queued for a process."""
    path = f"{POD}/exec?command=sleep&command=60&stdin=1&stdout=1"
    line = await upgraded(server, path, "v5.channel.k8s.io")
    assert await accepted(line, frame(b"\0" + bytes(MIB)), 60 * MIB) < 16 * MIB


def spdy_open(number, deflate, **headers):
    block = struct.pack(">I", len(headers))
    for name, value in headers.items():
        for text in (name, value):
            block += struct.pack(">I", len(text)) + text.encode()
    packed = deflate.compress(block) + deflate.flush(zlib.Z_SYNC_FLUSH)
    body = struct.pack(">IIBB", number, 0, 0, 0) + packed
    return struct.pack(">HHB", 0x8003, 1, 0) + len(body).to_bytes(3) + body


async def test_forwarded_data_that_no_port_reads_waits_with_the_client(server, listen) -> None:
    """X15: SPDY in a WebSocket, as kubectl speaks it, had no back-pressure."""
    await listen(Listener(reads=False))
    line = await upgraded(server, f"{POD}/portforward", "SPDY/3.1+portforward.k8s.io")
    deflate = zlib.compressobj(zdict=DICTIONARY)
    for number, kind in ((1, "error"), (3, "data")):
        line.send(frame(spdy_open(number, deflate, streamtype=kind, requestid="0", port="8000")))
    piece = struct.pack(">I", 3) + b"\0" + MIB.to_bytes(3) + bytes(MIB)
    assert await accepted(line, frame(piece), 100 * MIB) < 24 * MIB


async def test_attached_output_that_nobody_reads_stays_on_disk() -> None:
    """X15: the lines of a container were queued without end."""
    read = 0

    async def lines():
        nonlocal read
        while read < 10_000:
            read += 1
            yield SimpleNamespace(stream=b"stdout", text=b"x" * 10_000)
            await asyncio.sleep(0)

    session = AttachSession(None, LineReader(), LineReader(), lines(), lambda: 0)
    for _ in range(2000):
        await asyncio.sleep(0)
    assert read < 100
    assert len(await session.stdout.read()) == 10_000
    await session.close()


class Peer:
    """A SPDY session without a socket."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=2**26)
        self.sent = b""
        self.opened = 0
        self.deflate = zlib.compressobj(9, zlib.DEFLATED, 15, 9, 0, DICTIONARY)
        pipe = UpgradedConnection(self.reader, self._take, self._drain, lambda: None)
        self.session = SpdySession(pipe, self._on)

    def _take(self, data) -> None:
        self.sent += data

    async def _drain(self) -> None:
        return

    async def _on(self, stream) -> None:
        self.opened += 1

    def control(self, kind, body) -> None:
        self.reader.feed_data(struct.pack(">HHB", 0x8003, kind, 0) + len(body).to_bytes(3) + body)

    def kinds(self):
        found, rest = [], self.sent
        while rest:
            size = int.from_bytes(rest[5:8])
            found.append((int.from_bytes(rest[2:4]), rest[8 : 8 + size]))
            rest = rest[8 + size :]
        return found

    async def run(self) -> None:
        self.reader.feed_eof()
        async with asyncio.timeout(20):
            await self.session.run()


async def test_a_header_block_that_inflates_is_refused() -> None:
    """X5: 40 KB became 40 MB."""
    peer = Peer()
    bomb = peer.deflate.compress(bytes(40 * MIB)) + peer.deflate.flush(zlib.Z_SYNC_FLUSH)
    assert len(bomb) < 64 * 1024
    peer.control(1, struct.pack(">IIBB", 1, 0, 0, 0) + bomb)
    gc.collect()
    tracemalloc.start()
    try:
        await peer.run()
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    assert [kind for kind, _ in peer.kinds()] == [7]
    assert peer.opened == 0


async def test_streams_have_a_limit() -> None:
    """X5."""
    peer = Peer()
    for number in range(1, 2001, 2):
        peer.reader.feed_data(spdy_open(number, peer.deflate, streamtype="data"))
    await peer.run()
    assert peer.opened == 512
    refused = [body for kind, body in peer.kinds() if kind == 3]
    assert len(refused) == 1000 - 512
    assert {struct.unpack(">II", body)[1] for body in refused} == {3}


@pytest.mark.parametrize(
    "frames",
    [
        lambda peer: peer.control(4, bytes(65 * 1024)),
        lambda peer: peer.control(1, b"short"),
        lambda peer: [peer.reader.feed_data(spdy_open(1, peer.deflate, a="b")) for _ in range(2)],
        lambda peer: peer.reader.feed_data(spdy_open(2, peer.deflate, a="b")),
        lambda peer: peer.reader.feed_data(
            spdy_open(1, peer.deflate, **{f"h{number}": "" for number in range(100)})
        ),
    ],
    ids=["large control frame", "short frame", "stream twice", "server's stream", "many headers"],
)
async def test_a_client_that_breaks_the_protocol_is_sent_away(frames) -> None:
    """X5."""
    peer = Peer()
    frames(peer)
    await peer.run()
    assert peer.kinds()[-1][0] == 7


async def test_streams_that_are_over_are_forgotten() -> None:
    """X5: a long port-forward kept every stream that it ever had."""
    peer = Peer()
    for number in range(1, 4001, 2):
        peer.reader.feed_data(spdy_open(number, peer.deflate, streamtype="data"))
        peer.reader.feed_data(struct.pack(">I", number) + b"\x01" + bytes(3))

    async def finish(stream) -> None:
        peer.opened += 1
        await stream.finish()

    peer.session._on_stream = finish
    await peer.run()
    assert peer.opened == 2000


# ── protocols ────────────────────────────────────────────────────────────────────────────
async def test_a_broken_frame_gets_a_close_code(server) -> None:
    """P2."""
    path = f"{POD}/exec?command=cat&stdin=1&stdout=1"
    line = await upgraded(server, path, "v5.channel.k8s.io")
    line.send(b"\x82\x01x")
    async with asyncio.timeout(20):
        received = await line.reader.read()
    assert received.startswith(b"\x88")
    assert struct.unpack(">H", received[2:4]) == (1002,)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sinceTime=yesterday", "sinceTime"),
        ("sinceTime=0000-00-00T00:00:00Z", "sinceTime"),
        (f"tailLines={'9' * 5000}", "tailLines"),
        ("tailLines=%C2%B2", "tailLines"),
        (f"limitBytes={2**63}", "limitBytes"),
        (f"sinceSeconds={'1' * 30}", "sinceSeconds"),
        ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", "sinceSeconds"),
    ],
)
async def test_bad_options_of_logs_are_refused(server, query, field) -> None:
    """X18."""
    line = await server.connect()
    line.send(server.request("GET", f"{POD}/log?{query}"))
    status, _, body = await line.answer()
    assert status == 400
    assert field in json.loads(body)["message"]


def test_the_longest_time_is_no_fault() -> None:
    """X18: the clock minus this is no date."""
    options = _log_options(HttpRequest("GET", "/", (("sinceSeconds", str(2**62)),)))
    assert options.since_seconds is not None
    assert options.since_seconds <= 10**9


@pytest.mark.parametrize(
    "ports",
    [
        ",".join(str(number) for number in range(1, 130)),
        "0",
        "65536",
        "9" * 5000,
        "%C2%B2",
        "80,",
        "",
    ],
)
async def test_bad_ports_are_refused(server, ports) -> None:
    """X18."""
    line = await server.connect()
    line.send(
        server.request(
            "GET",
            f"{POD}/portforward?ports={ports}",
            b"",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )
    )
    status, _, body = await line.answer()
    assert status == 400
    assert "ports" in json.loads(body)["message"]


def test_a_container_that_cannot_be_made_has_no_log_to_wait_for(tmp_path) -> None:
    """X18: `kubectl logs` waited for ever at CreateContainerConfigError."""
    (tmp_path / "containers" / "c" / "0").mkdir(parents=True)
    task = Progress(failure=Failure("CreateContainerConfigError", "no such secret", 0.0))
    worker: Any = SimpleNamespace(
        runtime=SimpleNamespace(directory=tmp_path),
        facts=SimpleNamespace(containers={"c": ContainerFacts(start=task)}),
        pod=SimpleNamespace(
            metadata=SimpleNamespace(name="p"), spec=SimpleNamespace(init_containers=())
        ),
    )
    with pytest.raises(ContainerUnavailable, match="waiting to start: CreateContainerConfigError"):
        node_connector._log_directory(worker, "c", previous=False)


# ── the proxy ────────────────────────────────────────────────────────────────────────────
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_pod_does_not_learn_who_the_server_believes(server, listen) -> None:
    """X19."""
    listener = Listener(OK)
    await listen(listener)
    line = await server.connect()
    line.send(
        server.request(
            "GET",
            f"{POD}:8000/proxy/",
            b"",
            "Impersonate-User: boss",
            "Impersonate-Group: system:masters",
            "X-Remote-User: boss",
            "X-Remote-Extra-Scopes: all",
            "X-Own: kept",
            "X-Hop: gone",
            "Connection: X-Hop",
        )
    )
    assert (await line.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert await line.chunked() == b"ok"
    passed = listener.headers()
    assert passed["x-own"] == "kept"
    assert not [
        name
        for name in passed
        if name.startswith(("impersonate-", "x-remote-", "authorization", "x-hop"))
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n",
    ],
    ids=["short", "no last chunk", "broken chunk"],
)
async def test_half_an_answer_is_not_shown_as_whole(server, listen, answer) -> None:
    """X19."""
    await listen(Listener(answer))
    line = await server.connect()
    line.send(server.request("GET", f"{POD}:8000/proxy/", b"", "Connection: close"))
    async with asyncio.timeout(20):
        received = b""
        try:
            while part := await line.reader.read(65536):
                received += part
        except ConnectionError:
            pass
    assert received.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
    assert not received.endswith(b"0\r\n\r\n")


async def test_an_answer_that_ends_with_its_connection_is_whole(server, listen) -> None:
    await listen(Listener(b"HTTP/1.1 200 OK\r\n\r\nall of it"))
    line = await server.connect()
    line.send(server.request("GET", f"{POD}:8000/proxy/"))
    await line.reader.readuntil(b"\r\n\r\n")
    assert await line.chunked() == b"all of it"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(200_000)),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 3_000_000,
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ],
    ids=["many headers", "long header", "nonsense", "switches"],
)
async def test_a_pod_with_endless_headers_is_unreachable(server, listen, answer) -> None:
    """X15: the headers of a proxied answer were unlimited."""
    await listen(Listener(answer, closes=False))
    line = await server.connect()
    line.send(server.request("GET", f"{POD}:8000/proxy/"))
    assert (await line.answer())[0] == 503


async def test_head_through_the_proxy_has_no_body(server, listen) -> None:
    """X16: also when the Pod sends one."""
    await listen(Listener(OK))
    line = await server.connect()
    line.send(server.request("HEAD", f"{POD}:8000/proxy/") + server.request("GET", "/version"))
    head = await line.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"Content-Length: 2\r\n" in head
    status, _, body = await line.answer()
    assert status == 200
    assert json.loads(body)["major"] == "1"


async def test_the_answer_to_head_of_logs_has_no_body(server) -> None:
    """X16."""
    line = await server.connect()
    line.send(server.request("HEAD", f"{POD}/log") + server.request("GET", "/version"))
    assert (await line.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 405")
    assert (await line.answer())[0] == 200
