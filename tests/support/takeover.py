"""A scenario in which KubeRay has worked until now, and Manta may begin.

See `support.kuberay` for what KubeRay leaves behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, NODES, PODS
from manta.controllers.raycluster import controller as raycluster
from manta.controllers.raycronjob import controller as raycronjob
from manta.controllers.rayjob import controller as rayjob
from manta.controllers.rayservice import controller as rayservice
from manta.kube.client import Client
from manta.localplane.builtin.endpoints.controller import EndpointsController
from manta.localplane.builtin.garbage_collector.controller import GarbageCollector
from manta.localplane.builtin.metadata_watcher.watcher import MetadataWatcher
from manta.ray.dashboard import Dashboard
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support.fake_ray import FakeJob, FakeRay
from support.faults import FaultTransport
from support.kuberay import KubeRay, Release, would_do
from support.plane import MemoryPlane
from support.raycluster import NAMESPACE, ray_cluster
from support.raycrds import ray_crds
from support.rayjob import ray_job
from support.rayservice import NODE, FullKubelet
from support.rayservice_objects import cluster_config, ray_service
from support.virtual import faulty, running, virtual_plane

Json = dict[str, Any]
A_WHILE = 900.0


@dataclass
class Scenario:
    plane: MemoryPlane
    ray: FakeRay
    kuberay: KubeRay

    @property
    def client(self) -> Client:
        return self.plane.client

    async def get(self, resource: Any, name: str = "demo") -> Json:
        return await self.client.get(resource, Key(NAMESPACE, name))

    async def all(self, resource: Any) -> list[Json]:
        return (await self.client.list(resource, NAMESPACE)).items

    async def uids(self, resource: Any) -> set[str]:
        return {one["metadata"]["uid"] for one in await self.all(resource)}

    @asynccontextmanager
    async def taken_over(self, seconds: float = A_WHILE) -> AsyncIterator[FaultTransport]:
        """Manta, for a while; what must not change is compared, and KubeRay could come back."""
        await asyncio.sleep(5)  # until the Pods run
        kept = (PODS, RAY_CLUSTERS, JOBS, RAY_JOBS)
        before = [await self.uids(resource) for resource in kept]
        async with self.manta() as faults:
            await asyncio.sleep(seconds)
            after = [await self.uids(resource) for resource in kept]
            assert after == before
            assert self.submissions() == []
            assert await would_do(self.client, self.kuberay.release) == []
            yield faults

    @asynccontextmanager
    async def manta(self, settings: Settings | None = None) -> AsyncIterator[FaultTransport]:
        faults = faulty(self.plane)
        manager = Manager(Client(faults), self.plane.clock, Random(7))
        settings, dashboard = settings or Settings(), Dashboard(self.ray)
        raycluster.build(manager, settings)
        rayservice.build(manager, settings, dashboard)
        rayjob.build(manager, settings, dashboard)
        raycronjob.build(manager, settings)
        async with running(manager.run()):
            yield faults

    def submissions(self) -> list[str]:
        return [path for method, path, _ in self.ray.calls if method == "POST"]

    def run_job(self, cluster: str, job_id: str) -> None:
        """Ray has the job already: KubeRay saw to that."""
        head = self.ray.head(NAMESPACE, f"{cluster}-head-svc")
        head.jobs[job_id] = FakeJob("python main.py", start_time=1)

    def serve(self, cluster: str, config: Json, status: str = "RUNNING") -> None:
        head = self.ray.head(NAMESPACE, f"{cluster}-head-svc")
        head.serve_config = config
        deployments = {"Main": {"status": "HEALTHY", "message": ""}}
        app = {"status": status, "message": "", "deployments": deployments}
        head.applications = {one["name"]: app for one in config["applications"]}

    def puts(self, cluster: str) -> list[Json]:
        puts: list[Json] = self.ray.head(NAMESPACE, f"{cluster}-head-svc").puts
        return puts


@asynccontextmanager
async def a_scenario(release: Release) -> AsyncIterator[Scenario]:
    async with virtual_plane(crds=ray_crds()) as plane:
        await plane.client.create(NODES, "", {"metadata": {"name": NODE}})
        builtin = Manager(plane.client, plane.clock, Random(3))
        metadata_watcher = MetadataWatcher(builtin, {})
        builtin.add_service("all kinds", metadata_watcher.run)
        GarbageCollector(builtin, metadata_watcher)
        EndpointsController(builtin)
        scenario = Scenario(plane, FakeRay(deploy_after=5.0), KubeRay(plane.client, release))
        async with running(FullKubelet(plane.client).run(), builtin.run()):
            yield scenario


SERVED = {"applications": [{"name": "app", "import_path": "demo.app"}]}


async def a_service(scenario: Scenario, **spec: Any) -> tuple[Json, Json]:
    """It serves from demo-old."""
    kuberay = scenario.kuberay
    service = await kuberay.service(ray_service(**spec))
    config = ray_cluster("demo-old") | {"spec": cluster_config()}
    cluster = await kuberay.cluster(config, origin=service)
    await kuberay.service_services(service, cluster)
    scenario.serve("demo-old", SERVED)
    return service, cluster


async def a_job(scenario: Scenario, mode: str, **status: Any) -> Json:
    kuberay = scenario.kuberay
    document = ray_job(submissionMode=mode)
    if mode == "InteractiveMode":
        del document["spec"]["entrypoint"]
    job = await kuberay.job(document, "demo-abcde", "demo-12345", **status)
    sidecar = {"name": "ray-job-submitter", "image": "rayproject/ray:2.60.0"}
    labels = {"ray.io/job-submission-mode": mode}
    cluster = ray_cluster("demo-abcde", labels=labels)
    beside = sidecar if mode == "SidecarMode" else None
    await kuberay.cluster(cluster, origin=job, sidecar=beside)
    if mode == "K8sJobMode":
        await kuberay.submitter(job)
    if status.get("jobDeploymentStatus") != "Waiting":
        scenario.run_job("demo-abcde", "demo-12345")
    return job
