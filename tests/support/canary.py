"""Canaries for tests: objects, and what must hold at every moment of one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from manta.api.resources import PODS, SERVICES
from support.raycluster import container, group, template
from support.rayservice import Scenario
from support.rayservice_objects import cluster_config
from support.virtual import running

GPU = "nvidia.com/gpu"


def canary(*weights: int, pause: int = 10, **options: Any) -> dict[str, Any]:
    steps = [{"weight": weight, "pauseSeconds": pause} for weight in weights or (25, 50)]
    return {"type": "Canary", "canaryUpgradeOptions": {"steps": steps, **options}}


def gpu_config(image: str = "rayproject/ray:2.60.0", workers: int = 4) -> dict[str, Any]:
    """A cluster whose workers have one GPU each."""
    resources = {"limits": {"cpu": "1", GPU: "1"}}
    worker = template(container(resources=resources))
    return cluster_config(image, groups=[group("gpu", workers, template=worker)])


@dataclass
class GpuOracle:
    """Watches all Pods and the serve Service: the GPUs held at once, and the share of the new cluster."""

    scenario: Scenario
    most_gpus: int = 0
    shares: list[tuple[int, int]] = field(default_factory=list)
    """(Pods of the old cluster, Pods of the new one) behind the Service, in order."""
    empty: int = 0
    """How often the Service had no Pod at all after its first."""
    _pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    _selector: dict[str, str] = field(default_factory=dict)
    _clusters: list[str] = field(default_factory=list)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(PODS, self._pod))
            tasks.create_task(self._watch(SERVICES, self._service))

    async def _watch(self, resource: Any, see: Any) -> None:
        while True:
            async for event in self.scenario.client.watch(resource, initial_events=True):
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    see(event.type, event.object)
                    self._look()

    def _pod(self, type_: str, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["labels"].get("ray.io/cluster", "")
        if name not in self._clusters:
            self._clusters.append(name)
        uid = pod["metadata"]["uid"]
        self._pods.pop(uid, None) if type_ == "DELETED" else self._pods.update({uid: pod})

    def _service(self, type_: str, service: dict[str, Any]) -> None:
        if service["metadata"]["name"] == f"{self.scenario.name}-serve-svc" and type_ != "DELETED":
            self._selector = service["spec"]["selector"]

    def _look(self) -> None:
        pods = self._pods.values()
        self.most_gpus = max(self.most_gpus, sum(map(_gpus, pods)))
        if not self._selector:
            return
        behind = Counter(
            pod["metadata"]["labels"]["ray.io/cluster"]
            for pod in pods
            if self._selector.items() <= pod["metadata"]["labels"].items() and _is_ready(pod)
        )
        if not behind:
            self.empty += bool(self.shares)
            return
        old = behind[self._clusters[0]]
        share = (old, sum(behind.values()) - old)
        if share not in self.shares[-1:]:
            self.shares.append(share)


def _gpus(pod: dict[str, Any]) -> int:
    ray = pod["spec"]["containers"][0]
    return int(ray.get("resources", {}).get("limits", {}).get(GPU, 0))


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


@asynccontextmanager
async def gpus_watched(scenario: Scenario) -> AsyncIterator[GpuOracle]:
    oracle = GpuOracle(scenario)
    async with running(oracle.run()):
        yield oracle
