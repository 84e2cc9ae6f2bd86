"""Pods that ask for GPUs, and GPUs, for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.localplane.node.gpus.device import Gpu
from manta.localplane.node.spec.pod_spec import NodePod


def gpus(count: int, resource: str = RESOURCE_NVIDIA_GPU) -> tuple[Gpu, ...]:
    prefix = resource.partition(".")[0]
    return tuple(
        Gpu(f"GPU-{prefix}-{index}", resource, "test", index, nodes=(f"{prefix}{index}",))
        for index in range(count)
    )


def asking(count: int, name: str = "main", **more: Any) -> dict[str, Any]:
    """A container that asks for so many GPUs of NVIDIA's."""
    resources = {
        "limits": {RESOURCE_NVIDIA_GPU: str(count)},
        "requests": {RESOURCE_NVIDIA_GPU: str(count)},
    }
    return {"name": name, **({"resources": resources} if count else {}), **more}


def a_pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    uid: str = "uid-1",
    node: str = "manta",
) -> NodePod:
    body = {
        "metadata": {"name": f"pod-{uid}", "namespace": "default", "uid": uid},
        "spec": {"nodeName": node, "containers": containers, "initContainers": init},
    }
    return msgspec.convert(body, NodePod)
