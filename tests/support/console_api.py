"""A console and the embedded API server behind it, both on ports of this machine, for clients of the API."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from manta.console.api.callers import Callers
from manta.console.api.handler import RayApi
from manta.console.login.link import LinkLogin
from manta.console.login.links import OneTimeLinks
from manta.console.router import Router
from manta.console.server import LIMITS, ConsoleHandler, Settings
from manta.console.sessions import Cookies, Session
from manta.console.visitors import Visitors
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, User
from manta.httpserver.server import HttpServer
from manta.httpserver.upgrade import UpgradedConnection
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.cluster import User as KubeUser
from manta.kube.transport import HttpTransport
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.inprocess import InProcessTransport
from manta.localplane.store.store import Store
from manta.runtime.clock import SystemClock
from support.connector import LocalConnector
from support.console import COMMANDS, KEY
from support.raw_http import Line
from support.raycrds import ray_crds

RBAC = "/apis/rbac.authorization.k8s.io/v1"
RAY = "/apis/ray.io/v1/namespaces"
EDITH = User("edith", ("system:authenticated",))
VICTOR = User("victor", ("system:authenticated",))
TOKENS = {"admin-token": ADMIN, "edith-token": EDITH, "victor-token": VICTOR}
"""edith may edit in team-a; victor may view everywhere."""
_RULES: Mapping[str, list[dict[str, Any]]] = {
    "ray-edit": [
        {
            "apiGroups": ["ray.io", "", "events.k8s.io"],
            "resources": ["*"],
            "verbs": ["*"],
        }
    ],
    "ray-view": [
        {
            "apiGroups": ["ray.io", "", "events.k8s.io"],
            "resources": ["*"],
            "verbs": ["get", "list", "watch"],
        }
    ],
}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Recorder(Handler):
    """In front of the API server: what came through, and faults on request."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.seen: list[HttpRequest] = []
        self.fault: HttpResponse | None = None
        """Answered instead of a write."""
        self.lost: HttpServer | None = None

    async def handle(self, request: HttpRequest) -> HttpResponse:
        self.seen.append(request)
        if self.fault is not None and request.method not in ("GET", "HEAD"):
            return self.fault
        answer = await self.app.handle(request)
        if self.lost is not None and request.method not in ("GET", "HEAD"):
            self.lost.abort()
        return answer

    async def upgrade(
        self, request: HttpRequest, connection: UpgradedConnection
    ) -> HttpResponse | None:
        self.seen.append(request)
        return await self.app.upgrade(request, connection)

    async def authenticate(
        self, request: HttpRequest, certificate: dict[str, Any] | None
    ) -> User | None:
        return await self.app.authenticate(request, certificate)

    def error_response(self, error: Any) -> HttpResponse:
        return self.app.error_response(error)


@dataclass(slots=True)
class ServedApi:
    admin: Client
    recorder: Recorder
    connector: LocalConnector
    handler: ConsoleHandler
    cookies: Cookies
    port: int
    plane: HttpServer
    server: str
    """The address of the API server itself."""
    lines: list[Line] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cookie(self) -> str:
        """Of somebody who has logged in as the user of the kubeconfig."""
        return self.cookies.make(Session(2**40)).partition(";")[0]

    async def connect(self) -> Line:
        line = Line(*await asyncio.open_connection("127.0.0.1", self.port))
        self.lines.append(line)
        return line

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "admin-token",
        **headers: str,
    ) -> Answer:
        """One request of its own connection; `body` is JSON unless it is bytes."""
        line = await self.connect()
        await send(line, method, path, body, token=token, **headers)
        return await whole(line, method)

    async def direct(self, method: str, path: str, body: Any = None, *, token: str) -> Answer:
        """The same request to the API server itself."""
        host, _, port = self.server.removeprefix("http://").partition(":")
        line = Line(*await asyncio.open_connection(host, int(port)))
        self.lines.append(line)
        await send(line, method, path, body, token=token)
        return await whole(line, method)

    async def stop_kubernetes(self) -> None:
        """Every connection to the API server breaks, and no new one is possible."""
        self.plane.abort()

    async def lose_next_answer(self) -> None:
        """The API server carries out the next write, and its connection breaks before the answer."""
        self.recorder.lost = self.plane

    def came_through(self, method: str) -> list[HttpRequest]:
        return [one for one in self.recorder.seen if one.method == method]


async def send(
    line: Line, method: str, path: str, body: Any = None, *, token: str = "", **headers: str
) -> None:
    text = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    sent = {"Host": "127.0.0.1", "Connection": "close"}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    if text:
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        sent |= {"Content-Type": patch, "Content-Length": str(len(text))}
    sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    line.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + text)
    await line.writer.drain()


async def head_of(line: Line) -> tuple[int, dict[str, str]]:
    async with asyncio.timeout(60):
        text = (await line.reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = text.strip().split("\r\n")
    headers = dict(one.split(": ", 1) for one in lines)
    return int(first.split(" ")[1]), {name.lower(): value for name, value in headers.items()}


async def whole(line: Line, method: str = "GET") -> Answer:
    status, headers = await head_of(line)
    if method == "HEAD" or status in (204, 304):
        body = b""
    elif headers.get("transfer-encoding") == "chunked":
        body = await line.chunked()
    else:
        async with asyncio.timeout(60):
            body = await line.reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(status, headers, body)


@asynccontextmanager
async def served_api(limits: Limits = LIMITS) -> AsyncIterator[ServedApi]:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        store = Store(elapsed=clock.monotonic)
        stack.push_async_callback(store.close)
        app = App(store, clock=clock.now, random=random.Random(1), static_tokens=TOKENS)
        bootstrap(app)
        for crd in ray_crds():
            app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
        connector = LocalConnector()
        app.connector = connector
        recorder = Recorder(app)
        plane = HttpServer(recorder)
        server = f"http://127.0.0.1:{await plane.start('127.0.0.1', 0)}"
        stack.push_async_callback(plane.stop, 0.1)
        stack.callback(store.close_watches)
        cluster = Cluster(server, KubeUser("admin", token="admin-token"))
        visitors = Visitors(lambda _session: Client(HttpTransport(cluster)), clock)
        stack.push_async_callback(visitors.close)
        direct = HttpTransport(Cluster(server))
        stack.push_async_callback(direct.close)
        cookies = Cookies(KEY, port=1)
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        handler = ConsoleHandler(
            Settings(cookies, LinkLogin(OneTimeLinks(Path(directory)))),
            visitors,
            Router(COMMANDS),
            RayApi(Callers(direct, visitors, clock)),
            clock,
        )
        console = HttpServer(handler, frozenset({"127.0.0.1"}), limits)
        port = await console.start("127.0.0.1", 0)
        stack.push_async_callback(console.stop, 0.1)
        admin = Client(InProcessTransport(app))
        await _settle(admin)
        recorder.seen.clear()
        served = ServedApi(admin, recorder, connector, handler, cookies, port, plane, server)
        try:
            yield served
        finally:
            for line in served.lines:
                line.writer.close()


async def _settle(admin: Client) -> None:
    for namespace in ("team-a", "team-b"):
        await _create(admin, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for name, rules in _RULES.items():
        role = {"metadata": {"name": name}, "rules": rules}
        await _create(admin, f"{RBAC}/clusterroles", role)
    await _create(admin, f"{RBAC}/namespaces/team-a/rolebindings", _binding("ray-edit", EDITH))
    await _create(admin, f"{RBAC}/clusterrolebindings", _binding("ray-view", VICTOR))


async def _create(admin: Client, path: str, body: Mapping[str, Any]) -> None:
    headers = {"content-type": "application/json"}
    await admin.send("POST", path, headers=headers, body=msgspec.json.encode(body))


def _binding(role: str, user: User) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": f"{user.name}-{role}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user.name}],
    }


def ray_cluster(name: str, **head: Any) -> dict[str, Any]:
    container = {"name": "ray-head", "image": "ray"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "headGroupSpec": {
                "rayStartParams": {},
                "template": {"spec": {"containers": [container]}},
                **head,
            }
        },
    }
