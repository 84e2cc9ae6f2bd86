"""One API suite for any server: the embedded one by default, another by MANTA_CONTRACT_KUBECONFIG.

Tests speak plain HTTP through a transport and look at status, body and headers, so that they say
what every client sees. Each test gets a namespace of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manta.kube.config import load
from manta.kube.transport import HttpTransport, Request, Transport
from manta.localplane.inprocess import InProcessTransport
from support.plane import memory_plane

EXTERNAL = "MANTA_CONTRACT_KUBECONFIG"
TIMEOUT = 10.0
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        return str(self.body.get("message"))

    @property
    def reason(self) -> str:
        return str(self.body.get("reason"))

    @property
    def causes(self) -> list[tuple[str, str]]:
        details = self.body.get("details") or {}
        return [(one.get("field", ""), one["reason"]) for one in details.get("causes") or ()]

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])


@dataclass
class Events:
    """An open watch, read line by line."""

    _chunks: AsyncIterator[bytes]
    status: int
    _rest: bytes = b""
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def next(self, timeout: float = TIMEOUT) -> dict[str, Any]:
        async with asyncio.timeout(timeout):
            while b"\n" not in self._rest:
                self._rest += await anext(self._chunks)
        line, _, self._rest = self._rest.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        self.seen.append(event)
        return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next events, bookmarks left out."""
        found: list[tuple[str, str]] = []
        while len(found) < count:
            event = await self.next()
            if event["type"] != "BOOKMARK":
                found.append((event["type"], event["object"]["metadata"].get("name", "")))
        return found

    async def rest(self) -> list[dict[str, Any]]:
        """Everything until the server ends the watch."""
        found = []
        while True:
            try:
                found.append(await self.next())
            except StopAsyncIteration:
                return found


class Api:
    """A server under test, and a fresh namespace in it."""

    def __init__(self, transport: Transport, *, embedded: bool) -> None:
        self.transport = transport
        self.embedded = embedded
        self.namespace = ""

    def path(self, plural: str, name: str = "", sub: str = "", api: str = "/api/v1") -> str:
        parts = [f"{api}/namespaces/{self.namespace}/{plural}", name, sub]
        return "/".join(part for part in parts if part)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        agent: str = "contract/1",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = {"Accept": accept, "User-Agent": agent, **(headers or {})}
        data: bytes | None = None
        if body is not None:
            sent["Content-Type"] = content_type
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, path, tuple((query or {}).items()), sent, data)
        response = await self.transport.send(request)
        return Answer(response.status, response.headers, response.body)

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.request("GET", path, **more)

    async def create(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.request("POST", path, body, **more)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **more: Any) -> Answer:
        return await self.request("PATCH", path, body, content_type=content_type, **more)

    async def replace(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.request("PUT", path, body, **more)

    async def delete(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self.request("DELETE", path, body, **more)

    async def made(self, path: str, body: Any, **more: Any) -> dict[str, Any]:
        """Create, and demand that it worked."""
        answer = await self.create(path, body, **more)
        assert answer.status == 201, answer.text
        made: dict[str, Any] = answer.body
        return made

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str] | None = None, accept: str = "application/json"
    ) -> AsyncIterator[Events]:
        pairs = (("watch", "1"), *(query or {}).items())
        request = Request("GET", path, pairs, {"Accept": accept, "User-Agent": "contract/1"})
        async with self.transport.stream(request) as response:
            yield Events(aiter(response.chunks()), response.status)

    async def until_gone(self, path: str) -> None:
        async with asyncio.timeout(30):
            while (await self.get(path)).status != 404:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def served_api() -> AsyncIterator[Api]:
    external = os.environ.get(EXTERNAL)
    if external:
        transport = HttpTransport(load(Path(external)))
        try:
            yield Api(transport, embedded=False)
        finally:
            await transport.close()
        return
    async with memory_plane() as plane:
        yield Api(InProcessTransport(plane.app), embedded=True)


@asynccontextmanager
async def api_in_namespace() -> AsyncIterator[Api]:
    async with served_api() as api:
        body = {"metadata": {"generateName": "contract-"}}
        api.namespace = (await api.made("/api/v1/namespaces", body))["metadata"]["name"]
        if not api.embedded:
            await _until_account(api)
        try:
            yield api
        finally:
            await api.delete(f"/api/v1/namespaces/{api.namespace}")


async def _until_account(api: Api) -> None:
    async with asyncio.timeout(30):
        while (await api.get(api.path("serviceaccounts", "default"))).status != 200:
            await asyncio.sleep(0.02)


def config_map(name: str, data: Mapping[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **meta},
        "data": dict(data if data is not None else {"k": "1"}),
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


# ── a custom resource of every kind of rule ──────────────────────────────────────────────
GROUP = "t.example.com"


def widget_definition(suffix: str) -> dict[str, Any]:
    """A CRD with defaults, validation, rules, list types, status, scale and columns."""
    plural = f"widgets{suffix}"
    spec = {
        "type": "object",
        "required": ["mode"],
        "properties": {
            "mode": {"type": "string", "enum": ["a", "b"]},
            "replicas": {"type": "integer", "default": 1, "maximum": 10},
            "name": {"type": "string", "maxLength": 5},
            "cpu": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+m?$"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "nul": {"type": "string", "nullable": True},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "imm": {
                "type": "string",
                "x-kubernetes-validations": [
                    {"rule": "self == oldSelf", "message": "imm is immutable"}
                ],
            },
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {
                    "type": "object",
                    "required": ["k"],
                    "properties": {
                        "k": {"type": "string"},
                        "v": {"type": "string", "default": "dv"},
                    },
                },
            },
        },
    }
    status = {
        "type": "object",
        "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "selectableFields": [{"jsonPath": ".spec.mode"}],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {"spec": spec, "status": status},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": f"widget{suffix}",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": [f"wd{suffix}"],
            },
            "versions": [version],
        },
    }


@dataclass(frozen=True, slots=True)
class Widgets:
    """An established custom resource, and its paths."""

    api: Api
    plural: str

    def path(self, name: str = "", sub: str = "") -> str:
        return self.api.path(self.plural, name, sub, f"/apis/{GROUP}/v1")

    async def made(self, name: str, /, **spec: Any) -> dict[str, Any]:
        return await self.api.made(self.path(), widget(name, **spec))


def widget(name: str, /, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"mode": "a", **spec},
    }


@asynccontextmanager
async def established_widgets(api: Api) -> AsyncIterator[Widgets]:
    suffix = api.namespace.rpartition("-")[2]
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = await api.made(definitions, widget_definition(suffix))
    widgets = Widgets(api, crd["spec"]["names"]["plural"])
    async with asyncio.timeout(30):
        while (await api.get(widgets.path())).status != 200:
            await asyncio.sleep(0.02)
    try:
        yield widgets
    finally:
        await api.delete(f"{definitions}/{crd['metadata']['name']}")
