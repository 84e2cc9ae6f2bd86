"""No object gets past the webhook by making it raise (X14), and no client holds it up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from manta.admission import review as reviews
from manta.admission.review import review
from manta.admission.server import LIMITS, ReviewServer
from manta.httpserver.address import Address
from manta.rules.settings import Settings
from support.rayjob import ray_job
from support.rayservice_objects import ray_service

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def body_of(kind: str, document: bytes) -> bytes:
    """As kube-apiserver sends it."""
    head = {"kind": {"group": "ray.io", "version": "v1", "kind": kind}, "operation": "CREATE"}
    inner = json.dumps(head)[1:-1].encode()
    return (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"'
        + UID.encode()
        + b'",'
        + inner
        + b',"object":'
        + document
        + b"}}"
    )


def response(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(review(body, Settings()))["response"]
    assert found["uid"] == UID
    return found


TEXTS = ["z: 2020-99-99", "z: " + "9" * 5000, "[" * 5000, "{" * 5000, "a: &a [*a]", "!!python/x y"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["RayJob", "RayService"])
def test_a_hostile_text_is_judged_and_never_raises(kind: str, text: str) -> None:
    document = ray_job() if kind == "RayJob" else ray_service()
    field = "runtimeEnvYAML" if kind == "RayJob" else "serveConfigV2"
    document["spec"][field] = text
    found = response(body_of(kind, json.dumps(document).encode()))
    assert found["allowed"] or found["status"]["code"] == 422


def test_a_rule_that_raises_refuses_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: Any) -> Any:
        raise ZeroDivisionError("Bearer eyJhbGciOi.eyJzdWIi.c2ln")

    for kind, (view, _) in dict(reviews.RULES).items():
        monkeypatch.setitem(reviews.RULES, kind, (view, raises))
    found = response(body_of("RayJob", json.dumps(ray_job()).encode()))
    assert not found["allowed"]
    assert "ZeroDivisionError" in found["status"]["message"]
    assert "eyJ" not in found["status"]["message"]


@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_an_object_that_nobody_can_read_is_refused(depth: int) -> None:
    document = b'{"spec":' * depth + b"1" + b"}" * depth
    found = response(body_of("RayCluster", document))
    assert not found["allowed"]


# ── the server ───────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def served(judge: Any = None, **limits: Any) -> AsyncIterator[ReviewServer]:
    judge = judge or (lambda body: body)
    changed = replace(LIMITS, **limits)
    server = ReviewServer(Address("127.0.0.1", 0), None, judge, changed)  # type: ignore[arg-type]
    task = asyncio.create_task(server.run())
    await server.listening.wait()
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def said(server: ReviewServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "length", [str(LIMITS.body_bytes + 1), "9" * 5000, "-1", "1_0", "٣", ""], ids=range(6)
)
async def test_an_odd_length_is_refused_before_a_byte_is_read(length: str) -> None:
    async with served() as server:
        head = f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode()
        assert (await said(server, head)).split(b" ")[1] in (b"400", b"413")


async def test_a_request_that_trickles_in_is_given_up() -> None:
    async with served(request_seconds=0.2, anonymous_request_seconds=0.2) as server:
        assert await said(server, b"POST / HT") == b""
        assert await said(server, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab") == b""


async def test_connections_beyond_the_limit_end_the_oldest() -> None:
    """Otherwise a client with silent connections would keep the API server out."""
    async with served(connections=1) as server:
        silent, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST")
        await writer.drain()
        await asyncio.sleep(0.1)
        request = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
        assert (await said(server, request)).startswith(b"HTTP/1.1 200 OK")
        with suppress(ConnectionError):
            assert await silent.read() == b""
        writer.close()


async def test_a_judge_that_raises_ends_no_server(caplog: pytest.LogCaptureFixture) -> None:
    def raises(_: bytes) -> bytes:
        raise ZeroDivisionError("secret")

    close = b"Connection: close\r\n"
    async with served(raises) as server:
        failed = await said(server, b"POST / HTTP/1.1\r\n" + close + b"Content-Length: 1\r\n\r\nx")
        assert failed.startswith(b"HTTP/1.1 500")
        assert b"secret" not in failed
        assert "could not be answered" in caplog.text
        with pytest.raises(TimeoutError):  # it keeps the connection for the next request
            await asyncio.wait_for(said(server, b"GET /healthz HTTP/1.1\r\n\r\n"), 0.3)


def test_bytes_that_are_not_utf_8_are_refused_and_raise_nothing() -> None:
    """Found by the fuzzer."""
    with pytest.raises(reviews.InvalidReview):
        review(b'{"kind":"Admission\xffReview"}', Settings())
    body = body_of("RayJob", json.dumps(ray_job()).encode()).replace(
        b"admission.k8s", b"adm\xffssion"
    )
    assert not response(body)["allowed"]
