"""The whole operator with its hands tied: every write is only tried (`dryRun=All`) or not even that, and noted.

What a take-over will do is not foretold by rules of thumb but by the operator itself: it reads the
real cluster, decides as it always does, and the server answers each write as it would and keeps
nothing. What goes to Ray is withheld altogether: a dashboard knows no dry run.
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
QUIET = 4.0
"""Seconds without anything new after which everything has been said."""
PATIENCE = 60.0

_VERBS = {"POST": "create", "PUT": "change", "PATCH": "change", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the operator would do."""

    verb: str
    """create, change, delete, tell (a status), or ask (Ray for something)."""
    kind: str
    """The plural, as in the path: `pods`."""
    namespace: str
    name: str
    owner: tuple[str, str] = ("", "")
    """Kind and name of the Ray object that it is done for."""
    refused: str = ""
    """Why the server would not let it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a path of the API names."""

    kind: str
    namespace: str
    name: str = ""
    subresource: str = ""
    rest: str = ""

    @classmethod
    def of(cls, path: str) -> Place:
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind, name, subresource, *rest = [*parts, "", "", ""][: max(len(parts), 3)]
        return cls(kind, namespace, name, subresource, "/".join(rest))


@dataclass
class DryTransport:
    """Passes reads on; tries writes, and notes them."""

    inner: Transport
    steps: dict[Step, None] = field(default_factory=dict)

    async def send(self, request: Request) -> Response:
        if request.method in READS:
            return await self.inner.send(request)
        place = Place.of(request.path)
        if place.subresource == "proxy":
            return self._withheld(place)
        response = await self._tried(request)
        if place.kind != "events":
            await self._note(request, place, response)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self.inner.stream(request)

    async def close(self) -> None:
        """The transport below belongs to whoever made it."""

    async def _tried(self, request: Request) -> Response:
        """Deletions are not even tried: a server that overlooked the word would not give back."""
        if request.method == "DELETE":
            done = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            return Response(200, {"content-type": "application/json"}, msgspec.json.encode(done))
        dry = (*request.query, ("dryRun", "All"))
        return await self.inner.send(msgspec.structs.replace(request, query=dry))

    def _withheld(self, place: Place) -> Response:
        name = place.name.partition(":")[0]
        self.steps[Step("ask", place.rest, place.namespace, name)] = None
        status = {"kind": "Status", "code": 503, "message": "withheld: this is a rehearsal"}
        return Response(503, {"content-type": "application/json"}, msgspec.json.encode(status))

    async def _note(self, request: Request, place: Place, response: Response) -> None:
        body = _document(request.body)
        verb = "tell" if place.subresource == "status" else _VERBS[request.method]
        meta = body.get("metadata") or {}
        name = place.name or meta.get("name") or meta.get("generateName", "")
        owned = body if request.method == "POST" else await self._there(request, place)
        refused = ""
        if response.status >= 400:
            refused = str(_document(response.body).get("message", response.status))
        owner = _ray_owner(place, name, owned)
        self.steps[Step(verb, place.kind, place.namespace, name, owner, refused)] = None

    async def _there(self, request: Request, place: Place) -> dict[str, Any]:
        """The object that would be changed, for its owner."""
        if not place.name:
            return {}
        path = request.path.removesuffix(f"/{place.subresource}" if place.subresource else "")
        try:
            found = await self.inner.send(Request("GET", path, headers=_JSON))
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


def _ray_owner(place: Place, name: str, document: dict[str, Any]) -> tuple[str, str]:
    if place.kind in _RAY and place.name:
        return _RAY[place.kind], name
    meta = document.get("metadata") or {}
    for one in meta.get("ownerReferences") or ():
        if one.get("controller") and one["kind"] in _RAY.values():
            return one["kind"], one["name"]
    return ("", "")


async def rehearse(
    transport: Transport, clock: Clock, settings: Settings, namespaces: Sequence[str] = ()
) -> list[Step]:
    """All that the operator would do to what is there now, each thing once."""
    from manta.cli.operator import build_controllers

    dry = DryTransport(transport)
    manager = Manager(Client(dry), clock, Random(1), namespaces=namespaces)  # noqa: S311  jitter only
    for controller in build_controllers(manager, replace(settings, use_kubernetes_proxy=True)):
        manager.add(controller)
    running = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await _settled(manager, dry, running)
    except TimeoutError:
        pass  # still busy: what was seen so far is said
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return list(dry.steps)


async def _settled(manager: Manager, dry: DryTransport, running: asyncio.Task[None]) -> None:
    while not manager.ready:
        await asyncio.wait([running], timeout=0.1)
        if running.done():
            running.result()
    known = -1
    while known != len(dry.steps):
        known = len(dry.steps)
        await asyncio.sleep(QUIET)
