"""RayServices for tests: objects, and a scenario that runs them under virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from manta.api.core import Service
from manta.api.gateway import HTTPRoute
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.resources import GATEWAYS, HTTP_ROUTES, NODES, PODS, SERVICES, Resource
from manta.controllers.raycluster import controller as raycluster
from manta.controllers.rayservice import controller as rayservice
from manta.kube.client import Client
from manta.kube.errors import ApiError, NotFound
from manta.localplane.builtin.endpoints.controller import EndpointsController
from manta.localplane.builtin.garbage_collector.controller import GarbageCollector
from manta.localplane.builtin.metadata_watcher.watcher import MetadataWatcher
from manta.ray.dashboard import Dashboard
from manta.rules.settings import Settings
from manta.runtime.election import Leadership
from manta.runtime.manager import Manager
from support.fake_ray import FakeRay
from support.faults import FaultTransport
from support.plane import MemoryPlane
from support.raycluster import NAMESPACE, Kubelet
from support.raycrds import ray_crds
from support.rayservice_objects import ray_service
from support.virtual import running, virtual_plane

NODE = "machine"
KINDS = ("RayCluster", "RayService")
KEY = Key(NAMESPACE, "demo")
Check = Callable[[RayService], bool]


class FullKubelet(Kubelet):
    """Says as much as a real one, so that the endpoints controller understands it."""

    async def _start(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        binding = {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": NODE}}
        path = PODS.path(meta["namespace"], meta["name"], "binding")
        try:
            await self.client.send("POST", path, body=json.dumps(binding).encode())
        except ApiError:
            return  # gone already
        await super()._start(pod)

    def running(self, pod: dict[str, Any]) -> dict[str, Any]:
        status = super().running(pod)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        return status | {"podIPs": [{"ip": status["podIP"]}], "conditions": [ready]}


@dataclass
class Scenario:
    """The embedded server with endpoints and garbage collection, a kubelet, and a Ray."""

    plane: MemoryPlane
    ray: FakeRay
    kubelet: Kubelet
    settings: Settings = field(default_factory=Settings)
    name: str = "demo"
    """The RayService that a test is about, where it does not name another."""

    @property
    def key(self) -> Key:
        return Key(NAMESPACE, self.name)

    @property
    def client(self) -> Client:
        return self.plane.client

    async def create(self, name: str = "", **spec: Any) -> None:
        await self.client.create(RAY_SERVICES, NAMESPACE, ray_service(name or self.name, **spec))

    async def edit(self, **spec: Any) -> None:
        await self.client.patch(RAY_SERVICES, self.key, {"spec": spec})

    async def service(self, key: Key | None = None) -> RayService:
        return await self.client.get(RAY_SERVICES, key or self.key, into=RayService)

    async def until(self, check: Check, seconds: float = 300, key: Key | None = None) -> RayService:
        try:
            async with asyncio.timeout(seconds):
                while not check(service := await self.service(key)):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            last = (await self.service(key)).status
            raise AssertionError(f"it did not come to pass; last: {last}") from None
        return service

    async def until_gone(self, key: Key | None = None, seconds: float = 300) -> None:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    await self.service(key)
                except NotFound:
                    return
                await asyncio.sleep(0.1)

    async def clusters(self) -> list[dict[str, Any]]:
        return (await self.client.list(RAY_CLUSTERS, NAMESPACE)).items

    async def cluster_names(self) -> set[str]:
        return {one["metadata"]["name"] for one in await self.clusters()}

    async def pods(self, labels: str = "") -> list[dict[str, Any]]:
        return (await self.client.list(PODS, NAMESPACE, labels=labels)).items

    async def weights(self) -> dict[str, int]:
        """The weight of each cluster in the HTTPRoute."""
        key = Key(NAMESPACE, f"{self.name}-httproute")
        route = await self.client.get(HTTP_ROUTES, key, into=HTTPRoute)
        refs = route.spec.rules[0].backend_refs
        return {ref.name.removesuffix("-serve-svc"): ref.weight for ref in refs}

    async def selected(self, service: str = "") -> str:
        """The cluster that a Service selects; empty when there is no such Service."""
        key = Key(NAMESPACE, service or f"{self.name}-serve-svc")
        try:
            found = await self.client.get(SERVICES, key, into=Service)
        except NotFound:
            return ""
        return found.spec.selector.get("ray.io/cluster", "")

    def head(self, cluster: str) -> Any:
        return self.ray.head(NAMESPACE, f"{cluster}-head-svc")

    def runs(self, cluster: str) -> bool:
        """Do all applications of this cluster's Serve run?"""
        applications = self.head(cluster).applications.values()
        return bool(applications) and all(one["status"] == "RUNNING" for one in applications)


@asynccontextmanager
async def operator(
    scenario: Scenario, client: Client | None = None, leadership: Leadership | None = None
) -> AsyncIterator[Manager]:
    manager = Manager(client or scenario.client, scenario.plane.clock, Random(7))
    raycluster.build(manager, scenario.settings)
    rayservice.build(manager, scenario.settings, Dashboard(scenario.ray))
    task = asyncio.create_task(manager.run(leadership))
    try:
        yield manager
    finally:
        manager.stop()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def a_scenario(
    *, settings: Settings | None = None, crds: Any = (), **ray: Any
) -> AsyncIterator[Scenario]:
    needed = [one for one in ray_crds() if one["spec"]["names"]["kind"] in KINDS]
    async with virtual_plane(crds=[*needed, *crds]) as plane:
        fake = FakeRay(**{"deploy_after": 5.0, **ray})
        scenario = Scenario(plane, fake, FullKubelet(plane.client), settings or Settings())
        await plane.client.create(NODES, "", {"metadata": {"name": NODE}})
        builtin = Manager(plane.client, plane.clock, Random(3))
        metadata_watcher = MetadataWatcher(builtin, {})
        builtin.add_service("all kinds", metadata_watcher.run)
        GarbageCollector(builtin, metadata_watcher)
        EndpointsController(builtin)
        tasks = [
            asyncio.create_task(scenario.kubelet.run()),
            asyncio.create_task(builtin.run()),
        ]
        try:
            yield scenario
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


# ── what a RayService may look like ──────────────────────────────────────────────────────


def condition(service: RayService, type_: str) -> tuple[str, str]:
    found = [one for one in service.status.conditions if one.type == type_]
    return (found[0].status, found[0].reason) if found else ("", "")


def message(service: RayService, type_: str = "Ready") -> str:
    found = [one for one in service.status.conditions if one.type == type_]
    return found[0].message if found else ""


def is_ready(service: RayService) -> bool:
    return condition(service, "Ready") == ("True", "NonZeroServeEndpoints")


def serves_from(*, other_than: str) -> Check:
    """Ready, upgraded, and on a new cluster."""

    def check(service: RayService) -> bool:
        status = service.status
        new = status.active_service_status.ray_cluster_name not in ("", other_than)
        return new and not status.pending_service_status.ray_cluster_name and is_ready(service)

    return check


# ── the Gateway API ──────────────────────────────────────────────────────────────────────


def open_crd(resource: Resource) -> dict[str, Any]:
    """A CRD that accepts every spec and status."""
    plural, kind, group = resource.plural, resource.kind, resource.group
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


GATEWAY_CRDS = (open_crd(GATEWAYS), open_crd(HTTP_ROUTES))


def _true(*types: str) -> list[dict[str, str]]:
    return [{"type": type_, "status": "True", "reason": type_} for type_ in types]


def accepted(resource: Resource, one: dict[str, Any]) -> dict[str, Any]:
    """The status that a Gateway controller gives a Gateway or an HTTPRoute in which nothing is wrong."""
    if resource is GATEWAYS:
        return {"conditions": _true("Accepted", "Programmed")}
    found = {"conditions": _true("Accepted", "ResolvedRefs"), "controllerName": "test"}
    return {"parents": [found | {"parentRef": one["spec"]["parentRefs"][0]}]}


async def accept_routes(scenario: Scenario) -> None:
    """Plays a Gateway controller that finds nothing to complain about."""
    while True:
        for resource in (GATEWAYS, HTTP_ROUTES):
            for one in (await scenario.client.list(resource, NAMESPACE)).items:
                if "status" not in one:
                    key, body = Key(NAMESPACE, one["metadata"]["name"]), accepted(resource, one)
                    await scenario.client.patch(
                        resource, key, {"status": body}, subresource="status"
                    )
        await asyncio.sleep(0.5)


# ── oracles ──────────────────────────────────────────────────────────────────────────────


@dataclass
class Oracle:
    """Watches every object all the time, and keeps what must never happen."""

    scenario: Scenario
    most_clusters: int = 2
    violations: list[str] = field(default_factory=list)
    served_by: list[str] = field(default_factory=list)
    """The clusters that the serve Service selected, in order."""
    _alive: set[str] = field(default_factory=set)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_services())
            group.create_task(self._watch_clusters())

    async def _watch_services(self) -> None:
        while True:
            async for event in self.scenario.client.watch(SERVICES, initial_events=True):
                if event.type in ("ADDED", "MODIFIED"):
                    self._see_service(event.object)

    def _see_service(self, service: dict[str, Any]) -> None:
        if service["metadata"]["name"] != f"{self.scenario.name}-serve-svc":
            return
        cluster = service["spec"]["selector"]["ray.io/cluster"]
        if cluster in self.served_by[-1:]:
            return
        self.served_by.append(cluster)
        if not self.scenario.runs(cluster):
            self.violations.append(f"the Service was pointed at {cluster}, which does not serve")

    async def _watch_clusters(self) -> None:
        while True:
            async for event in self.scenario.client.watch(RAY_CLUSTERS, initial_events=True):
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    self._see_cluster(event.type, event.object["metadata"])

    def _see_cluster(self, type_: str, meta: dict[str, Any]) -> None:
        gone = type_ == "DELETED" or "deletionTimestamp" in meta
        (self._alive.discard if gone else self._alive.add)(meta["name"])
        if len(self._alive) > self.most_clusters:
            self.violations.append(f"too many clusters: {sorted(self._alive)}")


@asynccontextmanager
async def watched(scenario: Scenario, **what: Any) -> AsyncIterator[Oracle]:
    oracle = Oracle(scenario, **what)
    async with running(oracle.run()):
        yield oracle
    assert oracle.violations == []


async def until_killed_or(faults: FaultTransport, writes: int, seconds: float) -> bool:
    """Let the operator behind these faults live until its n-th write; False: it got so far."""
    killed = asyncio.Event()
    faults.kill_after_writes(writes, on_kill=killed.set)
    try:
        async with asyncio.timeout(seconds):
            await killed.wait()
    except TimeoutError:
        return False
    return True
