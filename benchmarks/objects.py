"""What the server benchmarks write: ConfigMaps of 1 KB, and RayClusters as people write them."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.wire import Target, Wire
from manta.api.crds import CRD_NAMES, crd_json

NAMESPACE = "bench"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def config_map(name: str) -> dict[str, Any]:
    data = {f"setting-{index}": f"value-{index}-" * 4 for index in range(20)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def ray_cluster(name: str, workers: int = 3, namespace: str = NAMESPACE) -> dict[str, Any]:
    """One head and some workers, 2 KB."""
    resources = {"cpu": "1", "memory": "2Gi"}
    container = {
        "name": "ray-head",
        "image": "rayproject/ray:2.60.0",
        "env": [{"name": f"SETTING_{index}", "value": f"value-{index}"} for index in range(4)],
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [{"name": "logs", "mountPath": "/tmp/ray"}],
    }
    volumes = [{"name": "logs", "emptyDir": {}}]
    head = {"spec": {"containers": [container], "volumes": volumes}}
    worker = {"spec": {"containers": [container | {"name": "ray-worker"}], "volumes": volumes}}
    group = {
        "groupName": "workers",
        "replicas": workers,
        "minReplicas": 0,
        "maxReplicas": max(workers, 10),
        "rayStartParams": {},
        "template": worker,
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": namespace, "labels": {"team": "bench"}},
        "spec": {
            "rayVersion": "2.60.0",
            "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": head},
            "workerGroupSpecs": [group],
        },
    }


async def make_ready(target: Target, *namespaces: str) -> None:
    """Namespaces and the four CRDs, served."""
    wire = await Wire.connect(target)
    for name in namespaces or (NAMESPACE,):
        body = msgspec.json.encode({"metadata": {"name": name}})
        await must(wire, "POST", "/api/v1/namespaces", body)
    for name in CRD_NAMES:
        await must(wire, "POST", CRDS, crd_json(name))
        while not _established(await must(wire, "GET", f"{CRDS}/{name}")):
            pass
    while (await wire.call("GET", "/apis/ray.io/v1/rayclusters"))[0] != 200:
        pass
    wire.close()


async def must(wire: Wire, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
    status, answer = await wire.call(method, path, body, kind or "application/json")
    if status >= 300:
        raise RuntimeError(f"{method} {path}: {status} {answer[:400].decode(errors='replace')}")
    return answer


def _established(definition: bytes) -> bool:
    conditions = (msgspec.json.decode(definition).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
