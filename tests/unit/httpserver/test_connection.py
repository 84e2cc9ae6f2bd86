"""One connection without a socket: requests as bytes in, responses as bytes out."""

from __future__ import annotations

import asyncio

import pytest

from manta.httpserver.connection import Connection as HttpConnection
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpResponse, User
from manta.httpserver.server import HttpServer

ALICE = User("alice")


class Wire(asyncio.Transport):
    """A transport that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closing = False
        self.paused = False

    def write(self, data) -> None:
        self.sent += data

    def is_closing(self):
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def set_write_buffer_limits(self, high=None, low=None) -> None:
        return

    def get_extra_info(self, name, default=None):
        return default


class Echo(Handler):
    """Answers with what was asked; `/stream` never ends on its own."""

    def __init__(self) -> None:
        self.cancelled = False
        self.user = ALICE

    async def authenticate(self, request, certificate):
        return self.user

    async def handle(self, request):
        if request.path == "/stream":
            return HttpResponse(200, self._forever())
        if request.path == "/range":
            return HttpResponse(206, b"x" * 200_000, (("Content-Range", "bytes 0-199999/300000"),))
        text = f"{request.method} {request.path} {request.query} {len(request.body)}"
        return HttpResponse(200, text.encode())

    async def _forever(self):
        try:
            yield b"first\n"
            await asyncio.Event().wait()
        finally:
            self.cancelled = True

    async def upgrade(self, request, connection) -> None:
        connection.write(b"upgraded " + await connection.reader.read(100))


class Connection:
    def __init__(self, hosts=frozenset(), limits=None) -> None:
        self.handler = Echo()
        self.server = HttpServer(self.handler, hosts, limits)
        self.wire = Wire()
        self.protocol = HttpConnection(self.server)
        self.protocol.connection_made(self.wire)

    async def feed(self, *pieces):
        for piece in pieces:
            self.protocol.data_received(piece)
            for _ in range(50):
                await asyncio.sleep(0)
        return self.wire.sent

    async def lose(self) -> None:
        self.protocol.connection_lost(None)
        for _ in range(5):
            await asyncio.sleep(0)


def bodies(sent):
    return [part.partition(b"\r\n\r\n")[2] for part in sent.split(b"HTTP/1.1 ")[1:]]


async def test_a_request_may_come_in_pieces() -> None:
    connection = Connection()
    sent = await connection.feed(
        b"POST /a%20b?x=1&y HTTP/1.1\r\nHo", b"st: h\r\nContent-Length: 4\r\n\r\nab", b"cd"
    )
    assert bodies(sent) == [b"POST /a b (('x', '1'), ('y', '')) 4"]
    await connection.lose()


async def test_answers_keep_the_order_of_the_requests() -> None:
    connection = Connection()
    sent = await connection.feed(b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % n for n in range(20)))
    assert [body.split()[1] for body in bodies(sent)] == [b"/%d" % n for n in range(20)]
    assert not connection.wire.paused
    await connection.lose()


async def test_a_client_may_ask_for_the_end() -> None:
    connection = Connection()
    sent = await connection.feed(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert b"Connection: close\r\n" in sent
    assert connection.wire.closing


async def test_head_has_no_body() -> None:
    connection = Connection()
    sent = await connection.feed(b"HEAD /x HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 12\r\n" in sent
    assert sent.endswith(b"\r\n\r\n")
    await connection.lose()


async def test_a_part_of_a_body_is_not_compressed() -> None:
    connection = Connection()
    sent = await connection.feed(b"GET /range HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n")
    assert b"Content-Length: 200000\r\n" in sent
    assert b"Content-Encoding" not in sent
    await connection.lose()


async def test_a_stream_ends_when_its_client_leaves() -> None:
    connection = Connection()
    sent = await connection.feed(b"GET /stream HTTP/1.1\r\n\r\n")
    assert sent.endswith(b"6\r\nfirst\n\r\n")
    await connection.lose()
    assert connection.handler.cancelled
    assert len(connection.server.connections) == 0


async def test_an_unknown_user_is_refused() -> None:
    connection = Connection()
    connection.handler.user = None  # type: ignore[assignment]
    sent = await connection.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert sent.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
    await connection.lose()


@pytest.mark.parametrize(
    ("host", "status"),
    [("good", 200), ("good:443", 200), ("127.0.0.9", 200), ("[::1]:9", 200), ("evil", 403)],
)
async def test_only_known_hosts_are_served(host, status) -> None:
    connection = Connection(frozenset(("good", "::1")))
    sent = await connection.feed(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert sent.startswith(f"HTTP/1.1 {status}".encode())
    await connection.lose()


async def test_limits_end_the_connection() -> None:
    connection = Connection(limits=Limits(body_bytes=10))
    sent = await connection.feed(b"POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n" + b"x" * 11)
    assert sent.startswith(b"HTTP/1.1 413")
    assert connection.wire.closing


async def test_nonsense_after_a_request_is_refused_after_its_answer() -> None:
    connection = Connection()
    sent = await connection.feed(b"GET /ok HTTP/1.1\r\n\r\n\x00\x01\x02 garbage\r\n\r\n")
    assert sent.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 400" in sent
    assert connection.wire.closing


async def test_an_upgrade_gets_the_bytes_that_follow() -> None:
    connection = Connection()
    sent = await connection.feed(
        b"GET /x HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly"
    )
    assert sent == b"upgraded early"
    assert connection.wire.closing


async def test_a_client_that_expects_continue_gets_it() -> None:
    connection = Connection()
    sent = await connection.feed(
        b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    )
    assert sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert b" 200 " in await connection.feed(b"x")
    await connection.lose()
