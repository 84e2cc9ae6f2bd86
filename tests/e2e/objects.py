"""RayClusters of real Ray for tests: small, so that several fit on two cores."""

from __future__ import annotations

from typing import Any

VERSION = "2.60.0"
IMAGE = f"rayproject/ray:{VERSION}"


def container(name: str, cpu: str = "1", memory: str = "1Gi", **fields: Any) -> dict[str, Any]:
    resources = {
        "requests": {"cpu": "200m", "memory": memory},
        "limits": {"cpu": cpu, "memory": memory},
    }
    return {"name": name, "image": IMAGE, "resources": resources, **fields}


def cluster(
    name: str,
    *,
    workers: int = 1,
    head: dict[str, Any] | None = None,
    group: dict[str, Any] | None = None,
    head_container: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    head_pod = container("ray-head", memory="2Gi", **(head_container or {}))
    worker_group = {
        "groupName": "workers",
        "replicas": workers,
        "minReplicas": 0,
        "maxReplicas": 4,
        "template": {"spec": {"containers": [container("ray-worker")]}},
        **(group or {}),
    }
    meta: dict[str, Any] = {"name": name}
    if annotations:
        meta["annotations"] = annotations
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": meta,
        "spec": {
            "rayVersion": VERSION,
            "headGroupSpec": {"template": {"spec": {"containers": [head_pod]}}, **(head or {})},
            "workerGroupSpecs": [worker_group],
            **spec,
        },
    }
