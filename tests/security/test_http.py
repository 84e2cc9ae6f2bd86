"""Clients that speak HTTP to harm the server, or each other."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from contextlib import contextmanager

import pytest

from manta.api.resources import CONFIG_MAPS
from manta.httpserver.connection import Connection
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpResponse
from manta.httpserver.server import HttpServer
from manta.localplane.apiserver.auth.authenticator import ADMIN
from support.raw_http import raw_server

PATH = "/api/v1/namespaces/default/configmaps"
JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


@pytest.fixture
async def server(tmp_path):
    async with raw_server(tmp_path / "plane") as served:
        yield served


def config_map(name, size=1):
    return json.dumps({"metadata": {"name": name}, "data": {"k": "x" * size}}).encode()


async def store(server, count, size) -> None:
    for number in range(count):
        body = json.loads(config_map(f"big-{number}", size))
        await server.plane.client.create(CONFIG_MAPS, "default", body)


@contextmanager
def memory_within(limit):
    """The Python memory of this process never grows by more than `limit` bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
        assert peak < limit
    finally:
        tracemalloc.stop()


# ── taking turns ─────────────────────────────────────────────────────────────────────────
class Memory(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.paused = False

    def write(self, data) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        return

    abort = close

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def set_write_buffer_limits(self, high=None, low=None) -> None:
        return

    def get_extra_info(self, name, default=None):
        return default


class Answering(Handler):
    async def authenticate(self, request, certificate):
        return None if request.path == "/" else ADMIN

    async def handle(self, request):
        return HttpResponse(200, b"ok")

    async def upgrade(self, request, connection) -> None:
        return None


async def test_pipelined_requests_take_turns_with_other_clients() -> None:
    """X11: the second client is answered after a few of the first one's requests, not after all."""
    server = HttpServer(Answering())
    wires = [Memory(), Memory()]
    protocols = [Connection(server) for _ in wires]
    for protocol, wire in zip(protocols, wires, strict=True):
        protocol.connection_made(wire)
    protocols[0].data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 5000)
    protocols[1].data_received(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(100):
        await asyncio.sleep(0)
        if wires[1].sent:
            break
    assert wires[1].sent.startswith(b"HTTP/1.1 200")
    assert wires[0].sent.count(b"HTTP/1.1 401") < 100
    assert wires[0].paused
    for protocol in protocols:
        protocol.connection_lost(None)
    await asyncio.sleep(0)


async def test_pipelined_requests_are_not_read_ahead() -> None:
    """X11: what waits is the bytes, not ten thousand parsed requests."""
    server = HttpServer(Answering())
    protocol, wire = Connection(server), Memory()
    protocol.connection_made(wire)
    flood = b"GET / HTTP/1.1\r\n\r\n" * 14_000
    with memory_within(1 * MIB):
        protocol.data_received(flood)
    protocol.connection_lost(None)
    await asyncio.sleep(0)


async def test_many_silent_connections_do_not_keep_others_out(server) -> None:
    """X11: of the connections without credentials the oldest go."""
    silent = [await server.connect() for _ in range(200)]
    assert await silent[0].ended()
    line = await server.connect()
    line.send(server.request("GET", PATH))
    assert (await line.answer())[0] == 200


async def test_one_user_has_not_all_connections(tmp_path) -> None:
    """X11."""
    async with raw_server(tmp_path / "plane", Limits(connections_per_user=3)) as server:
        answers = []
        for _ in range(4):
            line = await server.connect()
            line.send(server.request("GET", PATH))
            answers.append((await line.answer())[0])
        assert answers == [200, 200, 200, 429]
        line = await server.connect()
        line.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await line.answer())[0] == 200


# ── heads ────────────────────────────────────────────────────────────────────────────────
async def test_a_body_is_not_read_before_its_sender_is_known(server) -> None:
    """X11, X15: 3 MiB of everyone who can open a connection would fill the memory."""
    line = await server.connect()
    line.send(server.request("POST", PATH, b"", "Content-Length: 3000000", token="wrong"))
    status, headers, _ = await line.answer()
    assert (status, headers["connection"]) == (401, "close")


async def test_a_small_body_of_an_unknown_sender_is_skipped(server) -> None:
    line = await server.connect()
    line.send(server.request("POST", PATH, config_map("a"), token="wrong"))
    line.send(server.request("GET", PATH))
    assert [(await line.answer())[0] for _ in range(2)] == [401, 200]


async def test_trailers_are_no_headers(server) -> None:
    """X19: credentials after the body would be credentials that no proxy has seen."""
    line = await server.connect()
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = config_map("a")
    trailer = f"Authorization: Bearer {server.token}\r\n"
    line.send(f"{head}{len(body):x}\r\n".encode() + body + f"\r\n0\r\n{trailer}\r\n".encode())
    assert (await line.answer())[0] == 401


async def test_a_trailer_does_not_change_the_type_of_a_body(server) -> None:
    """X19."""
    line = await server.connect()
    line.send(server.request("POST", PATH, b"", "Transfer-Encoding: chunked"))
    body = config_map("a")
    line.send(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\nContent-Type: text/evil\r\n\r\n")
    assert (await line.answer())[0] == 201


@pytest.mark.parametrize("host", ["127.evil.com", "127.0.0.1.evil.com", "127.", "127.0.0.1@evil"])
async def test_a_name_that_looks_like_loopback_is_refused(server, host) -> None:
    """X19."""
    line = await server.connect()
    line.send(server.request("GET", PATH).replace(b"Host: localhost", f"Host: {host}".encode()))
    assert (await line.answer())[0] == 403


async def test_a_header_without_an_end_is_refused(server) -> None:
    """X15: the parser keeps an unfinished header; it must not grow for ever."""
    line = await server.connect()
    line.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000)
    assert (await line.answer())[0] == 431
    assert await line.ended()


async def test_a_trailer_without_an_end_is_refused(server) -> None:
    """X15, X19."""
    line = await server.connect()
    line.send(server.request("POST", PATH, b"", "Transfer-Encoding: chunked"))
    line.send(b"2\r\n{}\r\n0\r\nX: " + b"x" * 200_000)
    assert (await line.answer())[0] == 431


async def test_too_many_headers_are_refused(server) -> None:
    line = await server.connect()
    line.send(server.request("GET", PATH, b"", *(f"X-{number}: 1" for number in range(300))))
    assert (await line.answer())[0] == 431


async def test_too_many_query_parameters_are_refused(server) -> None:
    line = await server.connect()
    line.send(server.request("GET", f"{PATH}?{'a&' * 5000}"))
    status, _, body = await line.answer()
    assert status == 400
    assert "more than 1000 parameters" in json.loads(body)["message"]


# ── answers ──────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{PATH}?watch=1&timeoutSeconds=1", 405),
        (f"{PATH}?limit=500", 405),
        ("/version", 200),
        ("/api/v1", 200),
    ],
)
async def test_the_answer_to_head_has_no_body(server, path, status) -> None:
    """X16: a body after HEAD is taken for the next answer. Of objects there is none, as in kube-apiserver."""
    await store(server, 3, 100_000)
    line = await server.connect()
    line.send(server.request("HEAD", path) + server.request("GET", f"{PATH}/big-0"))
    head = await line.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d" % status)
    found, _, body = await line.answer()
    assert found == 200
    assert json.loads(body)["metadata"]["name"] == "big-0"


async def test_a_refused_head_has_no_body_either(server) -> None:
    """Found by the fuzzer, after 32,414 requests: a header that is not HTTP behind a HEAD."""
    line = await server.connect()
    line.send(b"HEAD /version HTTP/1.1\r\nHost: localhost\r\nX-Odd: a\x00b\r\n\r\n")
    head = await line.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert await line.reader.read() == b""


@pytest.mark.parametrize("path", ["pods/p%0d%0aX-Injected:%201/proxy", "pods/p%0aX:1/proxy"])
async def test_a_path_adds_no_headers_to_the_answer(server, path) -> None:
    """X16."""
    line = await server.connect()
    line.send(server.request("GET", f"/api/v1/namespaces/default/{path}"))
    status, headers, _ = await line.answer()
    assert status == 301
    assert headers["location"].endswith("/proxy/")
    assert not {"x-injected", "x"} & headers.keys()


async def test_an_answer_with_a_broken_header_is_not_sent() -> None:
    """X16: whatever makes a header, one place refuses control characters."""

    class Broken(Answering):
        async def handle(self, request):
            return HttpResponse(200, b"secret", (("X-Made", "a\r\nSet-Cookie: b"),))

    protocol, wire = Connection(HttpServer(Broken())), Memory()
    protocol.connection_made(wire)
    protocol.data_received(b"GET /other HTTP/1.1\r\n\r\n")
    for _ in range(10):
        await asyncio.sleep(0)
    assert wire.sent.startswith(b"HTTP/1.1 500")
    assert b"Set-Cookie" not in wire.sent
    protocol.connection_lost(None)
    await asyncio.sleep(0)


# ── memory ───────────────────────────────────────────────────────────────────────────────
async def test_bodies_that_never_end_do_not_fill_the_memory(server) -> None:
    """X15: 40 x 2.9 MB of one user: some are read, the others wait in their sockets."""
    lines = [await server.connect() for _ in range(40)]
    with memory_within(40 * MIB):
        for line in lines:
            line.send(server.request("POST", PATH, b"", "Content-Length: 3000000"))
            line.send(b'{"data":{"k":"' + b"x" * 2_900_000)
        del line
        other = await server.connect()
        other.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await other.answer())[0] == 200
        await asyncio.sleep(0.5)


async def test_lists_that_nobody_reads_do_not_fill_the_memory(server) -> None:
    """X15: 20 x 20 MB."""
    await store(server, 40, 500_000)
    await assert_cheap(server, "", "application/json")


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/yaml",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ],
)
async def test_lists_of_other_shapes_do_not_fill_the_memory_either(server, accept) -> None:
    """X15."""
    await store(server, 12, 400_000)
    await assert_cheap(server, "?includeObject=Object", accept)


async def assert_cheap(server, query, accept) -> None:
    lines = [await server.connect() for _ in range(20)]
    with memory_within(40 * MIB):
        for line in lines:
            line.send(server.request("GET", PATH + query, b"", f"Accept: {accept}"))
        for line in lines:
            assert (await line.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")


async def test_watches_that_nobody_reads_do_not_fill_the_memory(server) -> None:
    """X15: 20 watches and 40 MB of changes. Watches that fall too far behind must list again."""
    lines = [await server.connect() for _ in range(20)]
    for line in lines:
        line.send(server.request("GET", f"{PATH}?watch=1"))
        await line.reader.readuntil(b"\r\n\r\n")
    with memory_within(90 * MIB):
        for number in range(80):
            path = f"{PATH}/big-{number % 2}"
            body = config_map(f"big-{number % 2}", 500_000 + number)
            if number < 2:
                answer = await server.plane.client.send("POST", PATH, body=body, headers=JSON)
            else:
                answer = await server.plane.client.send("PUT", path, body=body, headers=JSON)
            assert answer.status in (200, 201)
            await asyncio.sleep(0)
    events = [json.loads(line) for line in (await lines[0].chunked()).splitlines()]
    assert events[-1]["type"] == "ERROR"
    assert (events[-1]["object"]["code"], events[-1]["object"]["reason"]) == (410, "Expired")
    other = await server.connect()
    other.send(server.request("GET", f"{PATH}/big-1"))
    assert (await other.answer())[0] == 200


async def test_a_long_list_in_parts_is_the_same_list(server) -> None:
    from manta.api.documents.reader import read_yaml

    await store(server, 5, 400_000)
    for accept in ("application/json", "application/yaml"):
        line = await server.connect()
        line.send(server.request("GET", PATH, b"", f"Accept: {accept}"))
        head = await line.reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        body = await line.chunked()
        parsed = json.loads(body) if accept.endswith("json") else read_yaml(body.decode())
        assert [one["metadata"]["name"] for one in parsed["items"]] == [
            f"big-{number}" for number in range(5)
        ]
        assert parsed["kind"] == "ConfigMapList"


async def test_a_connection_that_ends_lets_go_of_its_body(server) -> None:
    """X15: without waiting for the garbage collector, which counts objects and not bytes."""
    lines = [await server.connect() for _ in range(5)]
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for line in lines:
            line.send(server.request("POST", PATH, b"", "Content-Length: 3000000"))
            line.send(b'{"data":{"k":"' + b"x" * 2_900_000)
        async with asyncio.timeout(20):
            while tracemalloc.get_traced_memory()[0] < 12 * MIB:
                await asyncio.sleep(0.01)
        for line in lines:
            line.writer.transport.abort()
        async with asyncio.timeout(20):
            while tracemalloc.get_traced_memory()[0] > 3 * MIB:
                await asyncio.sleep(0.01)
    finally:
        tracemalloc.stop()
        gc.enable()
