"""The RayCluster controller on a fake cluster, with a transport that can misbehave and counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from manta.api.conditions import find
from manta.api.meta import Condition, Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.controllers.raycluster import controller as raycluster
from manta.kube.client import Client
from manta.localplane.inprocess import InProcessTransport
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support.fakenodes import FakeCluster, fake_cluster
from support.faults import FaultTransport
from support.raycluster import NAMESPACE, ray_cluster
from support.raycrds import ray_crds
from support.virtual import running

RAY_POD = "ray.io/cluster"


@dataclass
class Operated:
    """A fake cluster with our operator in it."""

    cluster: FakeCluster
    faults: FaultTransport
    manager: Manager

    @property
    def client(self) -> Client:
        return self.cluster.client

    async def create(self, name: str = "demo", **fields: Any) -> None:
        await self.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster(name, **fields))

    async def read(self, name: str = "demo") -> RayCluster:
        return await self.client.get(RAY_CLUSTERS, Key(NAMESPACE, name), into=RayCluster)

    async def patch(self, body: dict[str, Any], name: str = "demo") -> None:
        await self.client.patch(RAY_CLUSTERS, Key(NAMESPACE, name), body)

    async def scale(self, replicas: int, name: str = "demo", number: int = 0) -> None:
        body = [
            {
                "op": "add",
                "path": f"/spec/workerGroupSpecs/{number}/replicas",
                "value": replicas,
            }
        ]
        await self.client.patch(RAY_CLUSTERS, Key(NAMESPACE, name), body, kind="json")

    async def pods(self, name: str = "demo", node: str = "") -> list[dict[str, Any]]:
        labels = f"{RAY_POD}={name}" + (f",ray.io/node-type={node}" if node else "")
        return await self.cluster.pods(labels, NAMESPACE)

    async def head(self, name: str = "demo") -> Key:
        [pod] = await self.pods(name, "head")
        return Key(NAMESPACE, pod["metadata"]["name"])

    async def until(
        self, check: Callable[[RayCluster], object], name: str = "demo", seconds: float = 120.0
    ) -> RayCluster:
        try:
            async with asyncio.timeout(seconds):
                while not check(found := await self.read(name)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            last = (await self.read(name)).status
            raise AssertionError(f"it did not come to pass; the last status: {last}") from None
        return found

    async def until_ready(self, name: str = "demo", seconds: float = 120.0) -> RayCluster:
        return await self.until(lambda one: one.status.state == "ready", name, seconds)

    async def until_pods(self, count: int, name: str = "demo", node: str = "worker") -> None:
        """Until exactly so many Pods live, all of them ready."""

        async def there() -> bool:
            pods = await self.pods(name, node)
            return len(pods) == count and all(_is_ready(pod) for pod in pods)

        await self.cluster.until(there)

    def writes(self, path: str = "", method: str = "") -> list[str]:
        """The accepted writes of the operator, as `METHOD path`."""
        return [
            f"{one.method} {one.path}"
            for one in self.faults.accepted_writes(path)
            if not method or one.method == method
        ]

    def pod_creates(self) -> int:
        return len(self.writes("/pods", "POST"))

    def pod_deletes(self) -> int:
        return len(self.writes("/pods/", "DELETE"))


def condition(cluster: RayCluster, type_: str) -> Condition | None:
    return find(cluster.status.conditions, type_)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    alive = not pod["metadata"].get("deletionTimestamp")
    return alive and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@asynccontextmanager
async def start_operator(
    cluster: FakeCluster, settings: Settings | None = None, *, seed: int = 7, dashboard: Any = None
) -> AsyncIterator[Operated]:
    """A fresh operator process on a cluster that is already there."""
    faults = FaultTransport(InProcessTransport(cluster.plane.app))
    client = Client(faults)
    manager = Manager(client, cluster.plane.clock, Random(seed))
    raycluster.build(manager, settings or Settings(), dashboard)
    async with running(manager.run()):
        yield Operated(cluster, faults, manager)
    await client.close()


@asynccontextmanager
async def operated(
    settings: Settings | None = None, *, nodes: int = 3, dashboard: Any = None, **options: Any
) -> AsyncIterator[Operated]:
    """A fake cluster with an operator, until the end of the test."""
    async with (
        fake_cluster(nodes, crds=ray_crds(), **options) as cluster,
        start_operator(cluster, settings, dashboard=dashboard) as operator,
    ):
        yield operator
