"""Run the controllers against a cluster without changing it, and record what they would do.

Every write becomes a server-side dry run (`dryRun=All`), so the API server validates it and stores
nothing. Deletions and requests to Ray dashboards are recorded and not sent at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.transport import Request, Response, StreamResponse, Transport
from manta.rules.settings import Settings
from manta.runtime.clock import Clock
from manta.runtime.manager import Manager

READS = frozenset(("GET", "HEAD", "OPTIONS"))
IDLE_SECONDS = 4.0
"""The dry run ends after this time without a new step."""
MAX_SECONDS = 60.0

_VERBS = {"POST": "create", "PUT": "change", "PATCH": "change", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Step:
    """A write that the operator would make."""

    verb: str
    """create, change, delete, status (an update of it) or request (to a Ray dashboard)."""
    kind: str
    """The plural, as in the path: `pods`."""
    namespace: str
    name: str
    owner: tuple[str, str] = ("", "")
    """Kind and name of the Ray object that it belongs to."""
    refused: str = ""
    """Why the API server rejects it; empty: it does not."""


@dataclass(frozen=True, slots=True)
class ApiPath:
    """The parts of a request path of the Kubernetes API."""

    kind: str
    namespace: str
    name: str = ""
    subresource: str = ""
    rest: str = ""

    @classmethod
    def parse(cls, path: str) -> ApiPath:
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind, name, subresource, *rest = [*parts, "", "", ""][: max(len(parts), 3)]
        return cls(kind, namespace, name, subresource, "/".join(rest))


@dataclass
class DryTransport:
    """Forwards reads; turns writes into dry runs, and records them."""

    inner: Transport
    steps: dict[Step, None] = field(default_factory=dict)

    async def send(self, request: Request) -> Response:
        if request.method in READS:
            return await self.inner.send(request)
        path = ApiPath.parse(request.path)
        if path.subresource == "proxy":
            return self._not_sent(path)
        response = await self._dry_run(request)
        if path.kind != "events":
            await self._record(request, path, response)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self.inner.stream(request)

    async def close(self) -> None:
        """Leaves the inner transport open: it belongs to the caller."""

    async def _dry_run(self, request: Request) -> Response:
        """Deletions are not sent: a server that ignored `dryRun` would delete."""
        if request.method == "DELETE":
            done = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            return Response(200, {"content-type": "application/json"}, msgspec.json.encode(done))
        dry = (*request.query, ("dryRun", "All"))
        return await self.inner.send(msgspec.structs.replace(request, query=dry))

    def _not_sent(self, path: ApiPath) -> Response:
        name = path.name.partition(":")[0]
        self.steps[Step("request", path.rest, path.namespace, name)] = None
        status = {"kind": "Status", "code": 503, "message": "not sent: this is a dry run"}
        return Response(503, {"content-type": "application/json"}, msgspec.json.encode(status))

    async def _record(self, request: Request, path: ApiPath, response: Response) -> None:
        body = _document(request.body)
        verb = "status" if path.subresource == "status" else _VERBS[request.method]
        meta = body.get("metadata") or {}
        name = path.name or meta.get("name") or meta.get("generateName", "")
        owned = body if request.method == "POST" else await self._existing(request, path)
        refused = ""
        if response.status >= 400:
            refused = str(_document(response.body).get("message", response.status))
        owner = _ray_owner(path, name, owned)
        self.steps[Step(verb, path.kind, path.namespace, name, owner, refused)] = None

    async def _existing(self, request: Request, path: ApiPath) -> dict[str, Any]:
        """The object that would change, to read its owner; empty if it cannot be read."""
        if not path.name:
            return {}
        url = request.path.removesuffix(f"/{path.subresource}" if path.subresource else "")
        try:
            found = await self.inner.send(Request("GET", url, headers=_JSON))
        except MantaError:
            return {}
        return _document(found.body)


_JSON = {"accept": "application/json"}


def _document(body: bytes | None) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body or b"{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


_RAY = {
    "rayclusters": "RayCluster",
    "rayjobs": "RayJob",
    "rayservices": "RayService",
    "raycronjobs": "RayCronJob",
}


def _ray_owner(path: ApiPath, name: str, document: dict[str, Any]) -> tuple[str, str]:
    if path.kind in _RAY and path.name:
        return _RAY[path.kind], name
    meta = document.get("metadata") or {}
    for one in meta.get("ownerReferences") or ():
        if one.get("controller") and one["kind"] in _RAY.values():
            return one["kind"], one["name"]
    return ("", "")


async def dry_run(
    transport: Transport, clock: Clock, settings: Settings, namespaces: Sequence[str] = ()
) -> list[Step]:
    """All writes that the operator would make now, each once."""
    from manta.operator.controllers import build_controllers

    dry = DryTransport(transport)
    manager = Manager(Client(dry), clock, Random(1), namespaces=namespaces)  # noqa: S311  jitter only
    build_controllers(manager, replace(settings, use_kubernetes_proxy=True))
    running = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(MAX_SECONDS):
            await _until_idle(manager, dry, running)
    except TimeoutError:
        pass  # still busy: return the steps so far
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return list(dry.steps)


async def _until_idle(manager: Manager, dry: DryTransport, running: asyncio.Task[None]) -> None:
    while not manager.ready:
        await asyncio.wait([running], timeout=0.1)
        if running.done():
            running.result()
    known = -1
    while known != len(dry.steps):
        known = len(dry.steps)
        await asyncio.sleep(IDLE_SECONDS)
