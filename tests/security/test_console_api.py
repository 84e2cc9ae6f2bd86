"""Attacks on the API of the console: ways out of a proxy, smuggled requests, other hosts, services that lie."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from manta.api.resources import PODS, SERVICES
from manta.httpserver.handler import Handler
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.httpserver.server import HttpServer
from support.console_api import RAY, ServedApi, head_of, send, served_api, whole

PROXY = "/api/v1/namespaces/team-a/services/{}:8265/proxy"
HEAD = PROXY.format("demo-head-svc")


class Service(Handler):
    """A hostile dashboard."""

    def __init__(self) -> None:
        self.seen: list[HttpRequest] = []
        self.more = asyncio.Event()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        self.seen.append(request)
        if request.path == "/away":
            return HttpResponse(302, b"", (("Location", "https://evil.example/"),))
        if request.path == "/fail":
            return HttpResponse(503, b"broken")
        if request.path == "/stream":
            return HttpResponse(200, self._lines(), content_type="text/plain")
        headers = (("Set-Cookie", "manta-console-1=stolen"), ("X-Evil", "1"), ("ETag", '"1"'))
        return HttpResponse(200, b"<script>alert(1)</script>", headers, "text/html")

    async def _lines(self) -> AsyncIterator[bytes]:
        yield b"first\n"
        await self.more.wait()
        yield b"second\n"


@asynccontextmanager
async def with_services() -> AsyncIterator[tuple[ServedApi, Service]]:
    """A head Service, a Serve Service that only its owner tells apart, and one of somebody else."""
    behind = Service()
    server = HttpServer(behind)
    port = await server.start("127.0.0.1", 0)
    async with served_api() as api:
        api.connector.ports[8265] = port
        await api.admin.create(PODS, "team-a", _pod())
        status = {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        pod = "/api/v1/namespaces/team-a/pods/ray"
        await api.direct("PATCH", f"{pod}/status", {"status": status}, token="admin-token")
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": "demo",
            "uid": "1",
            "controller": True,
        }
        await _service(api, "demo-head-svc", {"labels": {"app.kubernetes.io/name": "kuberay"}})
        await _service(api, "demo-serve-svc", {"ownerReferences": [owner]})
        await _service(api, "bank", {"labels": {"app.kubernetes.io/name": "bank"}})
        api.recorder.seen.clear()
        yield api, behind
    await server.stop(0.1)


def _pod() -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 8265}]}]
    meta = {"name": "ray", "labels": {"app": "ray"}}
    return {"metadata": meta, "spec": {"containers": containers, "nodeName": "node-1"}}


async def _service(api: ServedApi, name: str, meta: dict[str, Any]) -> None:
    spec = {"selector": {"app": "ray"}, "ports": [{"name": "d", "port": 8265}]}
    await api.admin.create(SERVICES, "team-a", {"metadata": {"name": name, **meta}, "spec": spec})
    slices = "/apis/discovery.k8s.io/v1/namespaces/team-a/endpointslices"
    labels = {"kubernetes.io/service-name": name}
    target = {"kind": "Pod", "name": "ray", "namespace": "team-a"}
    body = {
        "metadata": {"name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["127.0.0.1"], "conditions": {"ready": True}, "targetRef": target}
        ],
        "ports": [{"name": "d", "port": 8265}],
    }
    made = await api.direct("POST", slices, body, token="admin-token")
    assert made.status == 201, made.body


async def test_only_services_of_ray_are_reached() -> None:
    async with with_services() as (api, behind):
        for name in ("demo-head-svc", "demo-serve-svc"):
            answer = await api.ask("GET", f"{PROXY.format(name)}/x?q=1", token="edith-token")
            assert answer.status == 200, answer.body
        assert [(one.path, one.query) for one in behind.seen] == [("/x", (("q", "1"),))] * 2
        refused = await api.ask("GET", f"{PROXY.format('bank')}/x", token="edith-token")
        assert (refused.status, refused.json["kind"]) == (404, "Status")
        assert "kuberay service not found" in refused.json["message"]
        assert len(behind.seen) == 2


async def test_the_rights_of_the_caller_decide_about_a_service() -> None:
    async with with_services() as (api, behind):
        for token in ("victor-token", "nobodys-token"):
            ours = await api.ask("POST", f"{HEAD}/api/jobs/", {}, token=token)
            theirs = await api.direct("POST", f"{HEAD}/api/jobs/", {}, token=token)
            assert (ours.status, ours.json["reason"]) == (theirs.status, theirs.json["reason"])
            assert ours.status in (401, 403)
        assert behind.seen == []


async def test_a_submission_to_a_service_that_fails_is_sent_once() -> None:
    async with with_services() as (api, behind):
        answer = await api.ask("POST", f"{HEAD}/fail", {"entrypoint": "python a.py"})
        assert (answer.status, answer.body, len(behind.seen)) == (503, b"broken", 1)
        assert behind.seen[0].body == b'{"entrypoint":"python a.py"}'


async def test_a_service_cannot_act_on_the_origin_of_the_console() -> None:
    async with with_services() as (api, behind):
        answer = await api.ask("GET", f"{HEAD}/", x_ray_authorization="Bearer ray")
        assert "set-cookie" not in answer.headers
        assert "x-evil" not in answer.headers
        assert answer.headers["content-security-policy"].startswith("sandbox")
        assert answer.headers["etag"] == '"1"'
        [seen] = behind.seen
        assert seen.headers["x-ray-authorization"] == "Bearer ray"
        assert {"authorization", "cookie"}.isdisjoint(seen.headers)
        login = {"token": "", "cookie": api.cookie()}
        refused = await api.ask("GET", f"{HEAD}/", **login)
        assert (refused.status, "bearer token" in refused.json["message"]) == (403, True)
        assert len(behind.seen) == 1


async def test_a_redirect_of_a_service_is_neither_followed_nor_passed_on() -> None:
    async with with_services() as (api, behind):
        answer = await api.ask("GET", f"{HEAD}/away")
        assert (answer.status, answer.json["kind"]) == (502, "Status")
        assert "location" not in answer.headers
        assert len(behind.seen) == 1


async def test_a_service_streams() -> None:
    async with with_services() as (api, behind):
        line = await api.connect()
        await send(line, "GET", f"{HEAD}/stream", token="edith-token")
        assert (await head_of(line))[0] == 200
        async with asyncio.timeout(20):
            assert await line.reader.readuntil(b"first\n\r\n")
            behind.more.set()
            assert await line.chunked() == b"second\n"


async def test_the_log_of_a_pod_of_ray_and_of_no_other() -> None:
    async with served_api() as api:
        for name, labels in (("ray", {"ray.io/cluster": "demo"}), ("bank", {})):
            pod = _pod()
            pod["metadata"] = {"name": name, "labels": labels}
            await api.admin.create(PODS, "team-a", pod)
        path = "/api/v1/namespaces/team-a/pods/{}/log"
        found = await api.ask("GET", f"{path.format('ray')}?tailLines=1", token="victor-token")
        assert (found.status, found.body) == (200, b"line 4\n")
        for name in ("bank", "none"):
            assert (await api.ask("GET", path.format(name))).status == 404


async def test_ways_out_of_a_path_end_at_the_console() -> None:
    async with with_services() as (api, behind):
        for path in (
            f"{HEAD}/../../../../secrets",
            f"{HEAD}/%2e%2e/%2e%2e/%2e%2e/secrets",
            f"{HEAD}/..%2f..%2f..%2fsecrets",
            "/apis/ray.io/v1/../../api/v1/namespaces/team-a/secrets",
            "/apis/ray.io/v1/%2e%2e/%2e%2e/api/v1/secrets",
            "/api/v1/namespaces/team-a/services/demo-head-svc%2f..%2fbank:8265/proxy/",
        ):
            assert (await api.ask("GET", path)).status == 400, path
        for path in (
            "/api/v1/secrets",
            "//apis/ray.io/v1/rayclusters",
            "http://evil.example/apis/ray.io/v1/",
        ):
            assert (await api.ask("GET", path)).status in (401, 404), path
        assert api.recorder.seen == []
        assert behind.seen == []


async def test_another_host_is_refused_with_a_status() -> None:
    async with served_api() as api:
        for token, headers in (
            ("", {}),
            ("", {"cookie": "manta-console-1=x"}),
            ("admin-token", {"cookie": "manta-console-1=x"}),
        ):
            path = f"{RAY}/team-a/rayclusters"
            answer = await api.ask("GET", path, token=token, host="evil.example", **headers)
            assert (answer.status, answer.json["kind"]) == (403, "Status")
        basic = {"authorization": "Basic eDp5", "host": "evil.example"}  # browsers repeat it
        assert (await api.ask("GET", f"{RAY}/team-a/rayclusters", token="", **basic)).status == 403
        assert (await api.ask("GET", "/", host="evil.example")).status == 403
        assert api.recorder.seen == []


async def test_a_bearer_token_is_taken_under_any_name() -> None:
    """Clients in the cluster use the name of the Service. No browser adds a bearer token by itself."""
    async with served_api() as api:
        for host in ("manta-console.manta-system.svc:8267", "10.4.2.7:8267"):
            answer = await api.ask("GET", f"{RAY}/team-a/rayclusters", host=host)
            assert answer.status == 200


async def test_metrics_and_probes_are_answered_at_an_address_and_pages_are_not() -> None:
    """Prometheus asks the address of the Pod, which is no name that a web page could have."""
    async with served_api() as api:
        for host in ("10.4.2.7:8267", "[fd00::7]:8267"):
            for path, status in (("/metrics", 200), ("/healthz", 200), ("/", 403), ("/login", 403)):
                assert (await api.ask("GET", path, token="", host=host)).status == status, path
        assert (await api.ask("GET", "/metrics", token="", host="evil.example")).status == 403


async def test_a_second_request_cannot_be_smuggled_in_a_body() -> None:
    inner = b"DELETE /apis/ray.io/v1/namespaces/team-a/rayclusters/demo HTTP/1.1\r\nHost: x\r\n\r\n"
    async with served_api() as api:
        for framing in (
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Content-Length: 5\r\nContent-Length: 6\r\n",
        ):
            line = await api.connect()
            line.send(
                b"POST /apis/ray.io/v1/namespaces/team-a/rayclusters HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Authorization: Bearer admin-token\r\n" + framing + b"\r\n0\r\n\r\n" + inner
            )
            with contextlib.suppress(asyncio.IncompleteReadError):  # closed without an answer
                assert (await whole(line)).status == 400
        assert api.came_through("DELETE") == []
        body = b"1\r\nx\r\n0\r\n\r\n" + inner
        answer = await api.ask("POST", f"{RAY}/team-a/rayclusters", body)
        assert answer.status == 400
        assert api.came_through("DELETE") == []


async def test_no_token_is_written_to_the_log(caplog: Any) -> None:
    async with served_api() as api:
        await api.ask("GET", f"{RAY}/team-a/rayclusters", token="secret-token-of-edith")
        api.plane.abort()
        await api.ask("GET", f"{RAY}/team-a/rayclusters", token="secret-token-of-edith")
    assert "secret-token-of-edith" not in caplog.text
