"""RayClusters for tests: builders, and a stand-in for the kubelet on the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS
from manta.controllers.raycluster import controller as raycluster
from manta.kube.client import Client
from manta.kube.errors import ApiError
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support.plane import MemoryPlane

NAMESPACE = "default"


def container(
    name: str = "ray", image: str = "rayproject/ray:2.60.0", **fields: Any
) -> dict[str, Any]:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    return {"name": name, "image": image, "resources": resources, **fields}


def template(*containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers) or [container()], **spec}}


def group(name: str = "workers", replicas: int | None = 1, **fields: Any) -> dict[str, Any]:
    body = {"groupName": name, "minReplicas": 0, "maxReplicas": 10, "template": template()}
    return body | ({} if replicas is None else {"replicas": replicas}) | fields


def ray_cluster(
    name: str = "demo",
    groups: list[dict[str, Any]] | None = None,
    *,
    head: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    meta |= {"annotations": annotations} if annotations else {}
    meta |= {"labels": labels} if labels else {}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": meta,
        "spec": {
            "rayVersion": "2.60.0",
            "headGroupSpec": {"template": template(), **(head or {})},
            "workerGroupSpecs": [group()] if groups is None else groups,
            **spec,
        },
    }


@dataclass
class Kubelet:
    """Makes Pods run and become ready; what a test puts into `script` happens instead."""

    client: Client
    script: Callable[[dict[str, Any]], dict[str, Any] | None] = field(default=lambda pod: None)
    delay: float = 0.2
    _started: set[str] = field(default_factory=set)
    _ips: int = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            async for event in self._client_watch():
                pod = event.object
                uid = pod["metadata"]["uid"]
                if event.type == "DELETED":
                    continue
                if pod["metadata"].get("deletionTimestamp"):
                    tasks.create_task(self._remove(pod))
                elif uid not in self._started and not pod["spec"].get("schedulingGates"):
                    self._started.add(uid)
                    tasks.create_task(self._start(pod))

    async def _client_watch(self) -> AsyncIterator[Any]:
        while True:
            async for event in self.client.watch(PODS, initial_events=True):
                if event.type != "BOOKMARK":
                    yield event

    async def _remove(self, pod: dict[str, Any]) -> None:
        await asyncio.sleep(self.delay)
        meta = pod["metadata"]
        await self.client.delete(PODS, Key(meta["namespace"], meta["name"]), grace_seconds=0)

    async def _start(self, pod: dict[str, Any]) -> None:
        await asyncio.sleep(self.delay)
        status = self.script(pod)
        await self.set_status(pod, self.running(pod) if status is None else status)

    def running(self, pod: dict[str, Any]) -> dict[str, Any]:
        self._ips += 1
        statuses = [
            {
                "name": one["name"],
                "ready": True,
                "image": one["image"],
                "imageID": "",
                "restartCount": 0,
                "state": {"running": {}},
            }
            for one in pod["spec"]["containers"]
        ]
        return {
            "phase": "Running",
            "podIP": f"10.1.{self._ips // 250}.{self._ips % 250 + 1}",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": statuses,
        }

    async def set_status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            await self.client.patch(
                PODS, Key(meta["namespace"], meta["name"]), body, subresource="status"
            )
        except ApiError:
            return


@asynccontextmanager
async def operator(
    plane: MemoryPlane, settings: Settings | None = None, client: Client | None = None
) -> AsyncIterator[Manager]:
    manager = Manager(client or plane.client, plane.clock, Random(7))
    raycluster.build(manager, settings or Settings())
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        manager.stop()
        await asyncio.gather(task, return_exceptions=True)


async def read(client: Client, name: str = "demo") -> RayCluster:
    return await client.get(RAY_CLUSTERS, Key(NAMESPACE, name), into=RayCluster)
