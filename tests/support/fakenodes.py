"""A whole cluster in one process under virtual time: server, built-in controllers, fake nodes.

@virtually
async def test_something() -> None:
    async with fake_cluster(nodes=2) as cluster:
        await cluster.client.create(JOBS, "default", {...})
        await cluster.until(lambda: cluster.is_true(JOBS, "j", "Complete"))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from manta.api.meta import Key
from manta.api.resources import EVENTS, PODS, Resource
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.localplane.controllers import ControllerOptions, built_in_controllers
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.runtime.manager import Manager
from support.plane import MemoryPlane
from support.virtual import running, virtual_plane

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FakeCluster:
    plane: MemoryPlane
    manager: Manager
    nodes: FakeNodes

    @property
    def client(self) -> Client:
        return self.plane.client

    async def get(self, resource: Resource, name: str, namespace: str = "default") -> Json | None:
        """The object, or None when there is none."""
        where = namespace if resource.namespaced else ""
        try:
            return await self.client.get(resource, Key(where, name))
        except NotFound:
            return None

    async def all(self, resource: Resource, namespace: str = "default") -> list[Json]:
        return (await self.client.list(resource, namespace)).items

    async def names(self, resource: Resource, namespace: str = "default") -> list[str]:
        return sorted(one["metadata"]["name"] for one in await self.all(resource, namespace))

    async def pods(self, labels: str = "", namespace: str = "default") -> list[Json]:
        return (await self.client.list(PODS, namespace, labels=labels)).items

    async def events(self, reason: str, namespace: str = "default") -> list[str]:
        """The notes of all Events with this reason."""
        return [one["note"] for one in await self.all(EVENTS, namespace) if one["reason"] == reason]

    async def is_true(self, resource: Resource, name: str, condition: str) -> bool:
        held = await self.get(resource, name)
        said = ((held or {}).get("status") or {}).get("conditions") or ()
        return any(one["type"] == condition and one["status"] == "True" for one in said)

    async def until(
        self, condition: Callable[[], Awaitable[object]], seconds: float = 120.0
    ) -> None:
        """Let virtual time pass until the condition holds; fail when it does not in time."""
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(0.05)

    async def until_gone(self, resource: Resource, name: str, namespace: str = "default") -> None:
        async def gone() -> bool:
            return await self.get(resource, name, namespace) is None

        await self.until(gone)

    async def until_phase(self, pod: str, phase: str) -> Json:
        async def reached() -> bool:
            held = await self.get(PODS, pod)
            return held is not None and held["status"].get("phase") == phase

        await self.until(reached)
        held = await self.get(PODS, pod)
        assert held is not None
        return held


@asynccontextmanager
async def fake_cluster(
    nodes: int = 1, *, crds: Iterable[Mapping[str, Any]] = (), seed: int = 1, **options: Any
) -> AsyncIterator[FakeCluster]:
    """`options` are those of FakeNodeOptions. Runs only under virtual time."""
    async with virtual_plane(crds) as plane:
        settings = ControllerOptions(root_ca="PEM", random=Random(seed))
        manager = built_in_controllers(plane.client, plane.clock, settings)
        kubelets = FakeNodes(manager, FakeNodeOptions(count=nodes, **options))
        async with running(manager.run()):
            await asyncio.sleep(0.5)
            yield FakeCluster(plane, manager, kubelets)


def a_pod_manifest(name: str, script: str = "", **spec: Any) -> Json:
    container = {"name": "c", "image": "i", **spec.pop("container", {})}
    annotations = {"fake.manta.io/script": script} if script else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


def a_job_manifest(name: str, script: str = "", **spec: Any) -> Json:
    template = {
        "metadata": {"annotations": {"fake.manta.io/script": script} if script else {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": 1, "parallelism": 1, "template": template, **spec},
    }
