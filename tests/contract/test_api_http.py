"""The HTTP front of the embedded server on real sockets: limits, manners, bad clients."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manta.api.resources import CONFIG_MAPS
from manta.localplane.plane import Plane, PlaneBusy, PlaneOptions
from support.raw_http import RawServer as Server
from support.raw_http import raw_server

pytestmark = pytest.mark.embedded_only

PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with raw_server(tmp_path / "plane") as served:
        yield served


def config_map(name: str, size: int = 1) -> bytes:
    return json.dumps({"metadata": {"name": name}, "data": {"k": "x" * size}}).encode()


async def test_requests_in_a_row_are_answered_in_order(server: Server) -> None:
    line = await server.connect()
    line.send(
        server.request("POST", PATH, config_map("a"))
        + server.request("GET", f"{PATH}/a")
        + server.request("GET", f"{PATH}/zz")
        + server.request("DELETE", f"{PATH}/a")
    )
    assert [(await line.answer())[0] for _ in range(4)] == [201, 200, 404, 200]
    line.writer.close()


async def test_a_body_that_is_too_large_is_refused_at_once(server: Server) -> None:
    line = await server.connect()
    head = server.request("POST", PATH, b"", "Content-Length: 4000000")
    line.send(head)
    status, _, body = await line.answer()
    assert status == 413
    assert json.loads(body)["message"] == "Request entity too large: limit is 3145728"
    assert await line.ended()


async def test_a_chunked_body_has_the_same_limit(server: Server) -> None:
    line = await server.connect()
    line.send(server.request("POST", PATH, b"", "Transfer-Encoding: chunked"))
    for _ in range(4):
        line.send(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
    assert (await line.answer())[0] == 413


async def test_a_large_object_within_the_limit_is_stored(server: Server) -> None:
    line = await server.connect()
    line.send(server.request("POST", PATH, config_map("big", 900_000)))
    assert (await line.answer())[0] == 201
    line.writer.close()


async def test_what_is_no_http_is_refused(server: Server) -> None:
    line = await server.connect()
    line.send(b"EHLO there\r\n\r\n")
    assert (await line.answer())[0] == 400
    assert await line.ended()


async def test_endless_headers_are_refused(server: Server) -> None:
    line = await server.connect()
    line.send(b"GET /version HTTP/1.1\r\nHost: localhost\r\n")
    line.send(b"X-Filler: " + b"x" * 70_000 + b"\r\n\r\n")
    assert (await line.answer())[0] == 431


async def test_a_foreign_host_name_is_refused(server: Server) -> None:
    line = await server.connect()
    request = server.request("GET", PATH).replace(b"Host: localhost", b"Host: evil.example")
    line.send(request)
    status, _, body = await line.answer()
    assert status == 403
    assert "evil.example" in json.loads(body)["message"]


@pytest.mark.parametrize("token", ["bad", "a.b.c", "", "x" * 5000])
async def test_a_bad_token_is_unauthorized(server: Server, token: str) -> None:
    line = await server.connect()
    line.send(server.request("GET", PATH, token=token))
    status, _, body = await line.answer()
    assert status == 401
    assert json.loads(body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


async def test_only_health_and_version_are_open_to_everyone(server: Server) -> None:
    for path, wanted in (("/healthz", 200), ("/version", 200), ("/api", 401), ("/apis", 401)):
        line = await server.connect()
        line.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert (await line.answer())[0] == wanted
        line.writer.close()


async def test_a_client_certificate_is_a_user(server: Server, tmp_path: Path) -> None:
    pair = server.plane.authority.issue_client("alice", ["system:masters"])
    (tmp_path / "crt").write_text(pair.certificate)
    (tmp_path / "key").write_text(pair.key)
    line = await server.connect((tmp_path / "crt", tmp_path / "key"))
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    line.send(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    status, _, answer = await line.answer()
    assert status == 201
    assert json.loads(answer)["status"]["userInfo"] == {
        "username": "alice",
        "groups": ["system:masters", "system:authenticated"],
    }


async def test_a_watch_streams_in_chunks_and_ends_with_the_client(server: Server) -> None:
    line = await server.connect()
    line.send(server.request("GET", f"{PATH}?watch=1&resourceVersion=0"))
    head = await line.reader.readuntil(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    await server.plane.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "w"}})
    size = int(await line.reader.readuntil(b"\r\n"), 16)
    event = json.loads(await line.reader.readexactly(size))
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "w")
    watchers = server.plane.app.store.watcher_count
    assert watchers("configmaps") == 1
    line.writer.close()
    async with asyncio.timeout(20):
        while watchers("configmaps"):
            await asyncio.sleep(0.01)


async def test_a_client_that_never_finishes_costs_nothing_else(server: Server) -> None:
    slow = await server.connect()
    slow.send(server.request("POST", PATH, config_map("slow"))[:-3])
    quick = await server.connect()
    quick.send(server.request("GET", PATH))
    assert (await quick.answer())[0] == 200
    slow.writer.close()
    quick.writer.close()
    assert (await server.plane.client.list(CONFIG_MAPS, "default")).items == []


async def test_paths_cannot_be_tricked(server: Server) -> None:
    line = await server.connect()
    for path in (
        "/api/v1/namespaces/default/../kube-system/configmaps",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets",
        "/api/v1//configmaps",
        "/api/v1/namespaces//configmaps",
        "/apis/../api/v1/secrets",
        "/%00",
    ):
        line.send(server.request("GET", path))
        assert (await line.answer())[0] == 404, path
    line.writer.close()


async def test_many_idle_watches_are_served_at_once(server: Server) -> None:
    lines = [await server.connect() for _ in range(100)]
    for line in lines:
        line.send(server.request("GET", f"{PATH}?watch=1&resourceVersion=0"))
    for line in lines:
        await line.reader.readuntil(b"\r\n\r\n")
    await server.plane.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "w"}})
    for line in lines:
        async with asyncio.timeout(20):
            size = int(await line.reader.readuntil(b"\r\n"), 16)
            assert b'"ADDED"' in await line.reader.readexactly(size)
        line.writer.close()


async def test_long_lists_are_compressed_for_who_asks(server: Server) -> None:
    line = await server.connect()
    line.send(server.request("POST", PATH, config_map("big", 200_000)))
    assert (await line.answer())[0] == 201
    line.send(server.request("GET", PATH, b"", "Accept-Encoding: gzip"))
    status, headers, body = await line.answer()
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert len(body) < 20_000
    listed = json.loads(gzip.decompress(body))
    assert [one["metadata"]["name"] for one in listed["items"]] == ["big"]
    for encoding in ("Accept-Encoding: identity", "Accept-Encoding: gzip;q=0", "X-Nothing: 1"):
        line.send(server.request("GET", PATH, b"", encoding))
        status, headers, body = await line.answer()
        assert "content-encoding" not in headers
        assert len(body) > 200_000
    line.send(server.request("GET", f"{PATH}/nothing", b"", "Accept-Encoding: gzip"))
    assert "content-encoding" not in (await line.answer())[1], "short answers stay as they are"


async def test_one_directory_holds_one_plane(server: Server) -> None:
    with pytest.raises(PlaneBusy, match="runs already"):
        async with Plane(server.plane.options):
            pass


async def test_the_kubeconfig_is_private_and_goes_with_the_plane(tmp_path: Path) -> None:
    options = PlaneOptions(tmp_path / "other", memory=True, controllers=False)
    async with Plane(options) as plane:
        path = plane.kubeconfig
        assert path.stat().st_mode & 0o777 == 0o600
        authority = base64.b64encode(plane.authority.certificate.encode()).decode()
        assert authority in path.read_text()
        first = plane.port
    assert not path.exists()
    async with Plane(options) as plane:
        assert plane.port == first
