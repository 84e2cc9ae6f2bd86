"""`manta dashboard`: a port of this machine that leads to one path of the API server (U12)."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import InvalidStatus

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.usage import UsageError
from manta.cli.dashboard import head_service, hint, service_of
from manta.cli.server.local_proxy import LocalProxy, refusal
from manta.cli.server.warnings import WarningPrinter
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.transport import HttpTransport, Request, Response, StreamResponse
from support.plane import memory_plane
from support.raycluster import ray_cluster
from support.raycrds import ray_crds

HEAD = {"head": {"serviceName": "demo-head-svc", "podIP": "127.0.0.2"}}


class Recorder:
    """A transport that answers everything, and remembers it."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        return Response(self.status, {"content-type": "text/html"}, b"a page")

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
async def served() -> AsyncIterator[tuple[LocalProxy, Recorder]]:
    recorder = Recorder()
    async with LocalProxy(Client(recorder), "/api/v1/x/proxy/") as proxy:
        yield proxy, recorder


def ask(url: str, **more: object) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **more), timeout=5) as answer:  # type: ignore[arg-type]
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


async def test_a_request_goes_to_the_path_of_the_api_server(
    served: tuple[LocalProxy, Recorder],
) -> None:
    proxy, recorder = served
    answer = await asyncio.to_thread(ask, f"{proxy.url}api/jobs/?a=1&b=", data=b"{}", method="POST")
    assert answer == (200, b"a page")
    [request] = recorder.asked
    assert (request.method, request.path, request.body) == (
        "POST",
        "/api/v1/x/proxy/api/jobs/",
        b"{}",
    )
    assert request.query == (("a", "1"), ("b", ""))


async def test_a_name_that_leads_here_by_chance_is_refused(
    served: tuple[LocalProxy, Recorder],
) -> None:
    proxy, recorder = served
    status, _ = await asyncio.to_thread(ask, proxy.url, headers={"Host": "evil.example"})
    assert status == 403
    assert recorder.asked == []


@pytest.mark.parametrize(
    "path", ["../secrets", "a/%2E%2e/b", "..%2f..%2fsecrets", "a/.", "a%5c..%5Cb", "./a", ".."]
)
async def test_a_path_that_could_lead_to_another_object_is_refused(
    path: str, served: tuple[LocalProxy, Recorder]
) -> None:
    proxy, recorder = served
    assert (await asyncio.to_thread(ask, f"{proxy.url}{path}"))[0] == 403
    assert recorder.asked == []
    allowed = "api/..a/.b/c../v1.0?q=/../x"
    assert (await asyncio.to_thread(ask, f"{proxy.url}{allowed}"))[0] == 200


@pytest.mark.parametrize(
    ("method", "headers", "allowed"),
    [
        ("GET", {"host": "127.0.0.1:1"}, True),
        ("GET", {"host": "localhost:1", "origin": "https://evil.example"}, True),
        ("POST", {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1"}, True),
        ("POST", {"host": "127.0.0.1:1"}, True),
        ("POST", {"host": "127.0.0.1:1", "origin": "https://evil.example"}, False),
        ("GET", {"host": "127.0.0.1:2"}, False),
        ("GET", {}, False),
    ],
)
def test_pages_of_others_may_not_change_anything(
    method: str, headers: dict[str, str], allowed: bool
) -> None:
    assert (refusal(method, headers, 1) == "") is allowed


async def test_a_port_that_is_taken_is_named(served: tuple[LocalProxy, Recorder]) -> None:
    port = int(served[0].url.rpartition(":")[2].strip("/"))
    with pytest.raises(UsageError, match=f"--port {port}: Address already in use"):
        await LocalProxy(Client(Recorder()), "/", port).__aenter__()


def test_each_kind_leads_to_its_cluster() -> None:
    assert service_of(RAY_CLUSTERS, HEAD) == "demo-head-svc"
    assert service_of(RAY_JOBS, {"rayClusterStatus": HEAD}) == "demo-head-svc"
    active = {"activeServiceStatus": {"rayClusterStatus": HEAD}}
    assert service_of(RAY_SERVICES, active) == "demo-head-svc"
    assert service_of(RAY_SERVICES, {}) == ""


async def test_the_only_cluster_needs_no_name_and_an_unreachable_url_is_not_printed() -> None:
    """U12: `manta up` printed addresses that nobody could reach."""
    async with memory_plane(crds=ray_crds()) as plane:
        await plane.client.create(RAY_CLUSTERS, "default", ray_cluster())
        with pytest.raises(UsageError, match="has no head yet"):
            await head_service(plane.client, "default", "")
        key = Key("default", "demo")
        await plane.client.patch(RAY_CLUSTERS, key, {"status": HEAD}, subresource="status")
        assert await head_service(plane.client, "default", "") == "demo-head-svc"
        assert "does not answer" in await hint(plane.client, RAY_CLUSTERS, key, None)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="no RayCluster in namespace other"):
            await head_service(plane.client, "other", "")


@asynccontextmanager
async def served_echo() -> AsyncIterator[tuple[str, list[str]]]:
    """The address of a proxy before an API server that answers WebSockets with what it hears; paths that were asked."""
    asked: list[str] = []

    async def echo(socket: ServerConnection) -> None:
        assert socket.request is not None
        asked.append(socket.request.path)
        async for message in socket:
            await socket.send(message)

    async with serve(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = HttpTransport(Cluster(server=f"http://127.0.0.1:{port}"))
        client = Client(WarningPrinter(transport))  # as the commands have it
        async with LocalProxy(client, "/api/v1/x/proxy/") as proxy:
            yield proxy.url.replace("http:", "ws:"), asked
        await client.close()


async def test_the_log_of_a_job_is_followed_by_a_websocket_as_ray_job_submit_does() -> None:
    async with served_echo() as (url, asked):
        async with connect(f"{url}api/jobs/a/logs/tail?b=1", proxy=None) as socket:
            for message in ("words", "x" * 300_000, b"bytes"):
                await socket.send(message)
                assert await socket.recv() == message
        assert asked == ["/api/v1/x/proxy/api/jobs/a/logs/tail?b=1"]


async def test_a_page_of_another_site_opens_no_websocket() -> None:
    async with served_echo() as (url, asked):
        with pytest.raises(InvalidStatus) as found:
            async with connect(url, origin="https://evil.example", proxy=None):  # type: ignore[arg-type]
                pass
        assert found.value.response.status_code == 403
        assert asked == []


async def test_a_websocket_that_nobody_answers_is_a_bad_gateway() -> None:
    client = Client(HttpTransport(Cluster(server="http://127.0.0.1:1")))
    async with LocalProxy(client, "/") as proxy:
        with pytest.raises(InvalidStatus) as found:
            async with connect(proxy.url.replace("http:", "ws:"), proxy=None):
                pass
        assert found.value.response.status_code == 502
    await client.close()
