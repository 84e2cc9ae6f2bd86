"""The dashboards of `FakeRay` as HTTP servers: what the API server's proxy reaches in every fake Pod.

All fake Pods share one address. The path of the request to the API server says which head it is for;
every kube-apiserver passes that path on as `X-Forwarded-Uri`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from manta.ray.models import Target, Unreachable
from support.connector import LocalConnector
from support.fake_ray import FakeRay

_WAY = re.compile(r"/api/v1/namespaces/([^/]+)/(services|pods)/([^/:]+)(:[^/]*)?/proxy(/.*)?")


@dataclass(frozen=True, slots=True)
class Dashboards:
    ray: FakeRay
    address: str
    dashboard: int
    serve: int
    """The ports of all heads."""

    @property
    def ports(self) -> list[dict[str, object]]:
        """What the Ray container of a head declares."""
        known = {"gcs-server": 6379, "client": 10001}
        known |= {"dashboard": self.dashboard, "serve": self.serve}
        return [{"name": name, "containerPort": port} for name, port in known.items()]


class Everywhere(LocalConnector):
    """On the embedded plane: every Pod is at this address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    async def dial(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._address, port)


@asynccontextmanager
async def dashboards(ray: FakeRay, address: str) -> AsyncIterator[Dashboards]:
    async def answer(request: web.Request) -> web.Response:
        way = _WAY.fullmatch(request.headers.get("X-Forwarded-Uri", ""))
        if way is None:
            return web.Response(status=421, text="this did not come through an API server")
        namespace, kind, name = way[1], way[2], way[3]
        if kind == "pods":
            return web.Response(status=200 if ray.healthy_proxies else 503)
        target = Target(namespace, name, request.host)
        reply = await ray.send(target, request.method, request.path_qs, await request.read())
        if isinstance(reply, Unreachable):
            return web.Response(status=502, text=reply.why)
        return web.Response(status=reply.status, body=reply.body)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        sites = [web.TCPSite(runner, address, 0), web.TCPSite(runner, address, 0)]
        for site in sites:
            await site.start()
        first, second = (one[1] for one in runner.addresses)
        yield Dashboards(ray, address, first, second)
    finally:
        await runner.cleanup()
