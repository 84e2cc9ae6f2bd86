"""Objects and snapshots for tests of the console, and a console on the embedded API server."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from manta.api.core import Node
from manta.api.meta import Key
from manta.cli.server.console_commands import dry_apply, read
from manta.console.action_executor import Commands
from manta.console.api.callers import Callers
from manta.console.api.handler import RayApi
from manta.console.login.link import LinkLogin
from manta.console.login.links import OneTimeLinks
from manta.console.pages.actions import RESOURCES
from manta.console.pages.forecast import Forecast
from manta.console.router import Router
from manta.console.server import ConsoleHandler, Settings
from manta.console.sessions import Cookies
from manta.console.snapshot import Item, Snapshot, item
from manta.console.views import Event, Pod, RayObject
from manta.console.visitors import Visitors
from manta.httpserver.messages import ANONYMOUS, HttpRequest, HttpResponse, User
from manta.kube.client import Client
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.runtime.clock import SystemClock
from support.plane import MemoryPlane, memory_plane
from support.raycrds import ray_crds

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
CREATED = "2026-11-18T11:40:00Z"
KEY = b"k" * 32
HOST = "127.0.0.1:8267"


def ray(kind: str, name: str, status: Mapping[str, Any] | None = None, **more: Any) -> Item:
    """A Ray object; `more` are `namespace`, `spec`, `labels`, `annotations`, `owner`, `created`, `version`."""
    meta: dict[str, Any] = {
        "name": name,
        "namespace": more.get("namespace", "default"),
        "uid": f"uid-{kind}-{name}",
        "resourceVersion": more.get("version", "7"),
        "generation": 1,
        "labels": more.get("labels", {}),
        "annotations": more.get("annotations", {}),
        "creationTimestamp": more.get("created", CREATED),
    }
    if owner := more.get("owner"):
        meta["ownerReferences"] = [
            {"kind": owner.kind, "name": owner.key.name, "uid": owner.uid, "controller": True}
        ]
    document = {"metadata": meta, "spec": more.get("spec", {}), "status": status or {}}
    return item(kind, msgspec.json.decode(msgspec.json.encode(document), type=RayObject))


def condition(name: str, held: bool, message: str = "", reason: str = "Because") -> dict[str, str]:
    return {
        "type": name,
        "status": "True" if held else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": CREATED,
    }


def ready_cluster(name: str, **more: Any) -> Item:
    status = {
        "state": "ready",
        "readyWorkerReplicas": 2,
        "availableWorkerReplicas": 2,
        "desiredWorkerReplicas": 2,
        "desiredCPU": "6",
        "desiredMemory": "20Gi",
        "desiredGPU": "0",
        "conditions": [condition("HeadPodReady", True), condition("RayClusterProvisioned", True)],
    }
    group = {
        "groupName": "small",
        "replicas": 2,
        "minReplicas": 0,
        "maxReplicas": 5,
        "template": {},
    }
    spec = {
        "rayVersion": "2.52.0",
        "headGroupSpec": {"template": {}},
        "workerGroupSpecs": [group],
        "enableInTreeAutoscaling": more.pop("autoscaler", False),
    }
    return ray("RayCluster", name, status, **{"spec": spec, **more})


def pod(name: str, cluster: str, **more: Any) -> Pod:
    ready = more.get("ready", True)
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": more.get("namespace", "default"),
                "uid": f"uid-{name}",
                "creationTimestamp": CREATED,
                "labels": {
                    "ray.io/cluster": cluster,
                    "ray.io/group": more.get("group", "small"),
                    "ray.io/node-type": more.get("type", "worker"),
                },
            },
            "spec": {
                "nodeName": more.get("node", "node-1") if ready else "",
                "containers": [
                    {
                        "name": "ray",
                        "resources": {"requests": {"cpu": more.get("cpu", "2"), "memory": "4Gi"}},
                    }
                ],
            },
            "status": {
                "phase": "Running" if ready else "Pending",
                "conditions": [
                    {"type": "Ready", "status": "True"}
                    if ready
                    else {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": more.get("why", "0/1 nodes are available: 1 Insufficient cpu."),
                    }
                ],
            },
        },
        Pod,
    )


def event(
    name: str, about: Item, message: str, kind: str = "Normal", *, reason: str = "Created"
) -> Event:
    reference = {"kind": about.kind, "namespace": about.key.namespace, "name": about.key.name}
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED},
            "involvedObject": reference,
            "type": kind,
            "reason": reason,
            "message": message,
            "lastTimestamp": CREATED,
        },
        Event,
    )


def node(name: str = "node-1", *, unschedulable: bool = False) -> Node:
    amounts = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    spec = {"unschedulable": unschedulable}
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": amounts}}, Node
    )


def snapshot(*items: Item, **more: Any) -> Snapshot:
    return Snapshot(now=NOW, items=items, user="ada", **more)


async def _planned(
    _client: Client, kind: str, key: Key, manifest: Mapping[str, Any] | None
) -> Forecast:
    return Forecast(f"{kind} {key}: planned", ("create Pod demo-head",))


async def _applied(client: Client, document: Mapping[str, Any]) -> str:
    resource = RESOURCES[document["kind"]]
    await client.create(resource, document["metadata"].get("namespace", "default"), document)
    return "created"


COMMANDS = Commands(_planned, _applied, dry_apply, read)


# ── a console that answers requests ──────────────────────────────────────────────────────


@dataclass(slots=True)
class RunningConsole:
    plane: MemoryPlane
    handler: ConsoleHandler
    links: OneTimeLinks
    visitors: Visitors
    cookie: str = ""

    def new_link(self) -> str:
        """The token of a link that nobody has used."""
        return self.links.new(time.time())

    async def get(self, path: str, query: str = "", **headers: str) -> HttpResponse:
        sent = {"host": HOST, "cookie": self.cookie, **headers}
        return await self.handler.handle(
            HttpRequest(
                "GET",
                path,
                tuple(parse_qsl(query)),
                {k.replace("_", "-"): v for k, v in sent.items()},
            )
        )

    async def post(self, path: str, body: bytes = b"", /, **headers: str) -> HttpResponse:
        sent = {"host": HOST, "cookie": self.cookie, "sec-fetch-site": "same-origin", **headers}
        return await self.handler.handle(
            HttpRequest("POST", path, (), {k.replace("_", "-"): v for k, v in sent.items()}, body)
        )

    async def log_in(self) -> None:
        answer = await self.get("/login", f"token={self.new_link()}")
        self.cookie = dict(answer.headers)["Set-Cookie"].partition(";")[0]


@asynccontextmanager
async def running_console(
    *,
    user: User = ADMIN,
    namespaces: tuple[str, ...] = (),
    log_in: bool = True,
    kinds: bool = True,
    prepare: Callable[[Client], Awaitable[None]] | None = None,
) -> AsyncIterator[RunningConsole]:
    """`kinds=False`: the server does not know the Ray kinds, which take a second to load. `prepare` makes objects
    before anybody comes."""
    clock = SystemClock()
    async with memory_plane(crds=ray_crds() if kinds else ()) as plane:
        if prepare is not None:
            await prepare(plane.client)
        visitors = Visitors(lambda _session: plane.client_as(user), clock, namespaces)
        with tempfile.TemporaryDirectory() as directory:
            links = OneTimeLinks(Path(directory))
            settings = Settings(Cookies(KEY, port=8267), LinkLogin(links))
            api = RayApi(Callers(plane.client_as(ANONYMOUS).transport, visitors, clock))
            handler = ConsoleHandler(settings, visitors, Router(COMMANDS), api, clock)
            console = RunningConsole(plane, handler, links, visitors)
            try:
                if log_in:
                    await console.log_in()
                yield console
            finally:
                await visitors.close()
