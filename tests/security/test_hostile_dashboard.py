"""A dashboard that belongs to a tenant: its answers lead nowhere, and cost a bounded amount (X10)."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from manta.client.dashboard import ProxyTransport
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.transport import HttpTransport
from manta.ray import dashboard as dashboards
from manta.ray.dashboard import Dashboard, job_path
from manta.ray.models import Accepted, JobInfo, ServeStatus, Target, Unreachable
from manta.ray.transport import MAX_REPLY_BYTES, DashboardTransport, DirectTransport, Reply

BOMB = gzip.compress(bytes(64 << 20))


class Head:
    """Answers each request with `answer`, and remembers what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def listening(head: Head) -> AsyncIterator[Head]:
    server = await asyncio.start_server(head.serve, "127.0.0.1", 0)
    async with server:
        head.port = server.sockets[0].getsockname()[1]
        yield head


@asynccontextmanager
async def reached(head: Head, way: str) -> AsyncIterator[tuple[DashboardTransport, Target]]:
    target = Target("ns", "svc", "127.0.0.1", head.port, token="t0ken")
    if way == "direct":
        transport: DashboardTransport = DirectTransport(timeout=20)
        yield transport, target
        await transport.close()
        return
    client = Client(HttpTransport(Cluster(server=f"http://127.0.0.1:{head.port}")))
    yield ProxyTransport(client), target
    await client.close()


def answered(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize("way", ["direct", "proxy"])
@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
async def test_no_redirect_is_followed_and_no_token_travels(way: str, status: str) -> None:
    async with listening(Head(answered(b"{}"))) as elsewhere:
        where = f"Location: http://127.0.0.1:{elsewhere.port}/steal"
        async with listening(Head(answered(b"", where, status=status))) as head:
            async with reached(head, way) as (transport, target):
                ray = Dashboard(transport)
                assert isinstance(await ray.job(target, "id"), Unreachable)
                put = await ray.put_serve_config(target, {"applications": []})
                assert isinstance(put, Unreachable)
                assert "redirect" in put.why
            assert len(head.asked) == 2
        assert elsewhere.asked == []


@pytest.mark.parametrize("way", ["direct", "proxy"])
async def test_a_compressed_answer_is_not_unpacked(way: str) -> None:
    """64 KiB on the wire, 64 MiB in memory."""
    assert len(BOMB) < 70_000
    async with (
        listening(Head(answered(BOMB, "Content-Encoding: gzip"))) as head,
        reached(head, way) as (transport, target),
    ):
        answer = await Dashboard(transport).session(target)
        assert isinstance(answer, Unreachable)
        assert b"identity" in head.asked[0]


@pytest.mark.parametrize("way", ["direct", "proxy"])
async def test_a_long_answer_is_read_to_the_limit_only(way: str) -> None:
    async with (
        listening(Head(answered(b"x" * (MAX_REPLY_BYTES + 1)))) as head,
        reached(head, way) as (transport, target),
    ):
        answer = await transport.send(target, "GET", "/api/version")
        assert isinstance(answer, Unreachable)
        assert str(MAX_REPLY_BYTES) in answer.why
        assert answer.sent


@pytest.mark.parametrize("way", ["direct", "proxy"])
@pytest.mark.parametrize(
    ("job_id", "segment"),
    [
        ("../../serve/applications/", b"/api/jobs/..%2F..%2Fserve%2Fapplications%2F/stop "),
        ("..", b"/api/jobs/%2E%2E/stop "),
        (".", b"/api/jobs/%2E/stop "),
        ("a?b=c#d%2F", b"/api/jobs/a%3Fb%3Dc%23d%252F/stop "),
        ("raysubmit_1.2-x", b"/api/jobs/raysubmit_1.2-x/stop "),
        ("x\r\nEvil: 1", b"/api/jobs/x%0D%0AEvil%3A%201/stop "),
    ],
)
async def test_a_job_id_stays_one_segment_of_the_path(
    way: str, job_id: str, segment: bytes
) -> None:
    async with listening(Head(answered(b"{}"))) as head:
        async with reached(head, way) as (transport, target):
            assert await Dashboard(transport).stop(target, job_id) == Accepted()
        line = head.asked[0].split(b"\r\n")[0]
        assert segment in line
        assert b"\r\nEvil" not in head.asked[0]


class Says:
    def __init__(self, body: bytes, status: int = 200) -> None:
        self._reply = Reply(status, body)

    async def send(self, *_: object) -> Reply:
        return self._reply

    async def probe(self, _: str) -> Reply:
        return self._reply

    async def close(self) -> None: ...


TARGET = Target("ns", "svc", "host")


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"applications":' * 100_000, b'{"a":' * 50_000])
async def test_an_answer_that_is_nested_too_deeply_is_no_exception(body: bytes) -> None:
    assert isinstance(await Dashboard(Says(body)).serve_status(TARGET), Unreachable)
    assert isinstance(await Dashboard(Says(body)).job(TARGET, "id"), Unreachable)


async def test_only_a_short_line_of_an_answer_is_repeated() -> None:
    page = b"<html>\n\x1b[31mBearer eyJhbGciOi.eyJzdWIi.c2ln\n" + b"y" * 5000
    answer = await Dashboard(Says(page, 500)).serve_status(TARGET)
    assert isinstance(answer, Unreachable)
    assert len(answer.why) < 300
    assert answer.why.isprintable()
    assert "eyJ" not in answer.why


async def test_what_ray_says_of_itself_is_cut_to_what_a_status_holds() -> None:
    long = b"m" * 100_000
    job = await Dashboard(Says(b'{"status":"FAILED","message":"' + long + b'"}')).job(TARGET, "id")
    assert isinstance(job, JobInfo)
    assert len(job.message or "") == dashboards.MAX_MESSAGE
    said = b'{"message":"' + long + b'","deployments":{"d":{"message":"' + long + b'"}}}'
    serve = await Dashboard(Says(b'{"applications":{"a":' + said + b"}}")).serve_status(TARGET)
    assert isinstance(serve, ServeStatus)
    assert len(serve.applications["a"].message) == dashboards.MAX_MESSAGE
    assert len(serve.applications["a"].deployments["d"].message) == dashboards.MAX_MESSAGE


def test_a_path_has_the_id_and_what_is_asked_of_it() -> None:
    assert job_path("a/b", "logs") == "/api/jobs/a%2Fb/logs"
