"""A fleet for tests of `manta top`, and a source that shows it without a server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from manta.api.core import Node, Pod
from manta.client.gpus import GpuRow
from manta.console.snapshot import Snapshot
from support.console import condition, event, node, pod, ray, ready_cluster, snapshot

GIB = 2**30


def gpu_pod(name: str, cluster: str) -> Pod:
    document = msgspec.to_builtins(pod(name, cluster, type="worker"))
    limits = {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}
    document["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    return msgspec.convert(document, Pod)


def gpu(index: int, pod_name: str, busy: int | None, used: int, trouble: str = "") -> GpuRow:
    return GpuRow(
        "node-1", index, "NVIDIA H200", f"GPU-{index}", busy, used * GIB, 140 * GIB, pod_name, trouble, ()
    )  # fmt: skip


def fleet() -> Snapshot:
    service = ray(
        "RayService",
        "chat",
        {
            "serviceStatus": "Running",
            "conditions": [condition("Ready", True)],
            "activeServiceStatus": {
                "rayClusterStatus": {"readyWorkerReplicas": 4, "desiredWorkerReplicas": 4}
            },
        },
        namespace="serving",
    )
    failed = ray(
        "RayJob",
        "train-llm",
        {
            "jobDeploymentStatus": "Failed",
            "message": "the entrypoint exited with code 1",
            "conditions": [condition("Failed", True, "the entrypoint exited with code 1")],
        },
        namespace="research",
    )
    waiting = ray(
        "RayCluster",
        "big",
        {
            "desiredWorkerReplicas": 8,
            "readyWorkerReplicas": 2,
            "conditions": [
                condition("RayClusterProvisioned", False, "6 of 8 workers are not ready")
            ],
        },
        namespace="research",
        spec={"headGroupSpec": {"template": {}}},
    )
    cluster = ready_cluster("demo")
    return snapshot(
        cluster,
        waiting,
        failed,
        service,
        ray("RayCronJob", "nightly", {}, spec={"schedule": "0 3 * * *"}),
        pods=(
            pod("demo-head", "demo", type="head", group="headgroup"),
            gpu_pod("demo-worker-1", "demo"),
            pod("demo-worker-2", "demo", ready=False),
        ),
        nodes=(_gpu_node(),),
        events=(
            event("one", cluster, "Created head Pod default/demo-head"),
            event("two", cluster, "no node has enough CPUs", "Warning"),
        ),
    )


def _gpu_node() -> Node:
    document = msgspec.to_builtins(node())
    document["status"]["capacity"] = document["status"]["allocatable"]
    return msgspec.convert(document, Node)


class FakeSource:
    server = "https://127.0.0.1:6443"

    def __init__(self, shown: Snapshot, gpus: tuple[GpuRow, ...] = ()) -> None:
        self._shown = shown
        self._gpus = gpus
        self._changed = asyncio.Event()
        self.version = 0

    def change(self, **fields: Any) -> None:
        self._shown = replace(self._shown, **fields)
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def snapshot(self) -> Snapshot:
        return self._shown

    async def wait_newer(self, version: int, seconds: float) -> None:
        while self.version == version:
            await self._changed.wait()

    async def gpus(self, snapshot: Snapshot) -> tuple[GpuRow, ...]:
        return self._gpus


GPUS = (
    gpu(0, "default/demo-worker-1", 87, 96),
    gpu(1, "", 0, 0),
    gpu(2, "research/big-worker-7", 12, 4),
    gpu(3, "", None, 0, "fell off the bus"),
)
