"""All four Ray controllers in one manager, for tests of what happens when one of them raises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import EVENTS, Resource
from manta.controllers.raycluster import controller as raycluster
from manta.controllers.raycronjob import controller as raycronjob
from manta.controllers.raycronjob.events import CONTROLLER as RAY_CRON_JOB_CONTROLLER
from manta.controllers.rayjob import controller as rayjob
from manta.controllers.rayjob.events import CONTROLLER as RAY_JOB_CONTROLLER
from manta.controllers.rayservice import controller as rayservice
from manta.controllers.rayservice.events import CONTROLLER as RAY_SERVICE_CONTROLLER
from manta.kube.client import Client
from manta.ray.dashboard import Dashboard
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support.fake_ray import FakeRay
from support.plane import MemoryPlane
from support.raycluster import NAMESPACE, ray_cluster
from support.raycrds import ray_crds
from support.raycronjob import ray_cron_job
from support.virtual import running, virtual_plane

BY_KIND: dict[str, tuple[Resource, Any, str]] = {
    "RayCluster": (RAY_CLUSTERS, raycluster, "raycluster"),
    "RayJob": (RAY_JOBS, rayjob, RAY_JOB_CONTROLLER),
    "RayService": (RAY_SERVICES, rayservice, RAY_SERVICE_CONTROLLER),
    "RayCronJob": (RAY_CRON_JOBS, raycronjob, RAY_CRON_JOB_CONTROLLER),
}


def an_object(kind: str, name: str) -> dict[str, Any]:
    cluster = ray_cluster(name)
    meta = cluster["metadata"]
    specs: dict[str, dict[str, Any]] = {
        "RayCluster": cluster["spec"],
        "RayJob": {"entrypoint": "python x.py", "rayClusterSpec": cluster["spec"]},
        "RayService": {"serveConfigV2": "applications: []", "rayClusterConfig": cluster["spec"]},
        "RayCronJob": ray_cron_job(name)["spec"],
    }
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": specs[kind]}


@dataclass
class Operated:
    plane: MemoryPlane
    manager: Manager

    @property
    def client(self) -> Client:
        return self.plane.client

    async def make(self, kind: str, name: str) -> None:
        await self.client.create(BY_KIND[kind][0], NAMESPACE, an_object(kind, name))

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        return await self.client.get(BY_KIND[kind][0], Key(NAMESPACE, name))

    async def condition(self, kind: str, name: str) -> dict[str, Any] | None:
        return next(iter(await self.conditions(kind, name, "ReconcileError")), None)

    async def conditions(self, kind: str, name: str, type_: str) -> list[dict[str, Any]]:
        found = (await self.get(kind, name)).get("status", {}).get("conditions", [])
        return [one for one in found if one["type"] == type_]

    async def events(self, name: str, reason: str = "ReconcileFailed") -> list[dict[str, Any]]:
        found = (await self.client.list(EVENTS, NAMESPACE)).items
        return [
            one for one in found if one["reason"] == reason and one["regarding"]["name"] == name
        ]

    def failures(self, kind: str, phase: str) -> float:
        return self.manager.metrics.failures.get(BY_KIND[kind][2], phase)


@asynccontextmanager
async def operated(plane: MemoryPlane, client: Client | None = None) -> AsyncIterator[Operated]:
    """All controllers, running on this plane."""
    settings = Settings()
    manager = Manager(client or plane.client, plane.clock, Random(1))
    dashboard = Dashboard(FakeRay())
    raycluster.build(manager, settings)
    rayjob.build(manager, settings, dashboard)
    rayservice.build(manager, settings, dashboard)
    raycronjob.build(manager, settings)
    async with running(manager.run()):
        yield Operated(plane, manager)


@asynccontextmanager
async def all_controllers() -> AsyncIterator[Operated]:
    async with virtual_plane(crds=ray_crds()) as plane, operated(plane) as one:
        yield one
