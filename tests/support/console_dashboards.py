"""A console with dashboards on origins of their own, served on one port; a fake Ray answers behind the proxy."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.cli.plane.console import bound
from manta.cli.server.console_origins import DASHBOARDS, Parts, put_together
from manta.console.api.callers import Callers
from manta.console.api.handler import RayApi
from manta.console.dashboards.site import Site
from manta.console.login.link import LinkLogin
from manta.console.login.links import OneTimeLinks
from manta.console.server import LIMITS
from manta.console.visitors import Visitors
from manta.httpserver.messages import ANONYMOUS, User
from manta.httpserver.server import HttpServer
from manta.kube.client import Client
from manta.kube.transport import Request, Transport
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.inprocess import InProcessTransport
from manta.runtime.clock import SystemClock
from support.console import COMMANDS, KEY
from support.plane import MemoryPlane, memory_plane
from support.raycrds import ray_crds
from support.shared_console import Browser

CONSOLE = "manta-console.localhost"
Ray = Callable[[Request], tuple[int, Mapping[str, str], bytes]]


@dataclass(slots=True)
class _Stream:
    status: int
    headers: Mapping[str, str]
    body: bytes

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body


@dataclass(slots=True)
class _Proxied:
    """The API server, with a fake Ray behind the proxy of its Services."""

    inner: Transport
    ray: Ray
    asked: list[Request]

    async def send(self, request: Request) -> Any:
        return await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        if "/proxy/" in request.path:
            self.asked.append(request)
            yield _Stream(*self.ray(request))
            return
        async with self.inner.stream(request) as found:
            yield found

    async def close(self) -> None:
        await self.inner.close()


@dataclass(slots=True)
class DashboardConsole:
    plane: MemoryPlane
    links: OneTimeLinks
    site: Site
    port: int
    asked: list[Request] = field(default_factory=list)
    """What reached Ray."""

    @property
    def url(self) -> str:
        return f"http://{CONSOLE}:{self.port}"

    def link(self) -> str:
        return f"{self.url}/login?token={self.links.new(time.time())}"

    def address(self, name: str, namespace: str = "default") -> str:
        return self.site.address(Key(namespace, name))

    async def browser(self) -> Browser:
        """One that has logged in."""
        found = Browser(self.port)
        await found.get(self.link().removeprefix(self.url))
        return found

    async def opened(self, browser: Browser, name: str) -> Browser:
        """The same person on the origin of a dashboard."""
        status, _ = await browser.get(f"/rayclusters/default/{name}/dashboard")
        assert status == 303, status
        assert browser.answer is not None
        to = urlsplit(browser.answer.headers["Location"])
        other = Browser(self.port, host=str(to.hostname))
        status, _ = await other.get(f"{to.path}?{to.query}", sec_fetch_site="cross-site")
        assert status == 200, status
        return other


@asynccontextmanager
async def dashboard_console(
    ray: Ray, *, user: User = ADMIN, writes: bool = False
) -> AsyncIterator[DashboardConsole]:
    clock = SystemClock()
    asked: list[Request] = []
    async with memory_plane(crds=ray_crds()) as plane:
        inner = InProcessTransport(plane.app, user)
        visitors = Visitors(lambda _session: Client(_Proxied(inner, ray, asked)), clock)
        with tempfile.TemporaryDirectory() as directory:
            links = OneTimeLinks(Path(directory))
            api = RayApi(Callers(plane.client_as(ANONYMOUS).transport, visitors, clock))
            listener = bound(0)
            port = listener.getsockname()[1]
            handler, hosts = put_together(
                Parts(
                    url=urlsplit(f"http://{CONSOLE}:{port}"),
                    key=KEY,
                    login=LinkLogin(links),
                    visitors=visitors,
                    api=api,
                    commands=COMMANDS,
                    clock=clock,
                    server="",
                    dashboards=urlsplit(f"http://{DASHBOARDS}:{port}"),
                    writes=writes,
                )
            )
            server = HttpServer(handler, hosts, LIMITS)
            await server.start_on(listener)
            try:
                yield DashboardConsole(plane, links, Site("http", DASHBOARDS, port), port, asked)
            finally:
                await server.stop(grace_seconds=0.1)
                await visitors.close()


async def ready_cluster(client: Client, name: str, **spec: Any) -> None:
    """A RayCluster whose head answers."""
    pod = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    await client.create(
        RAY_CLUSTERS,
        "default",
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": name},
            "spec": {"headGroupSpec": {"rayStartParams": {}, "template": pod}, **spec},
        },
    )
    ready = {
        "type": "HeadPodReady",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-11-18T11:40:00Z",
    }
    status = {"status": {"head": {"serviceName": f"{name}-head-svc"}, "conditions": [ready]}}
    await client.patch(RAY_CLUSTERS, Key("default", name), status, subresource="status")
