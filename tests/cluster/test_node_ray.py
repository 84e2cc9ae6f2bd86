"""A real Ray head and worker from Pod specs: environment from PyPI, DNS, exec, drain on TERM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from manta.api.resources import ENDPOINT_SLICES, SERVICES
from support.nodeplane import NodePlane, node_plane

pytestmark = [
    pytest.mark.ray,
    pytest.mark.root,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]

SHARED = Path.home() / ".cache" / "manta" / "images"
HEAD = "ray start --head --block --dashboard-host=0.0.0.0 --num-cpus=1"
WORKER = "ray start --address=head.default.svc.cluster.local:6379 --block --num-cpus=1"
SMALL = " --object-store-memory=100000000"
TASKS = """
import ray, socket
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=1)
def where():
    import time; time.sleep(1)
    return socket.gethostname()
print(sorted(set(ray.get([where.remote() for _ in range(4)]))))
"""


async def start(node: NodePlane, name: str, command: str, probe: dict[str, Any]) -> dict[str, Any]:
    container = {
        "image": "rayproject/ray:2.60.0",
        "args": [f"ulimit -n 65536; {command}{SMALL}"],
        "readinessProbe": {
            **probe,
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 300,
        },
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    await node.run(name, "/bin/bash", "-c", "--", container=container, volumes=volumes)
    return await node.until_ready(name)


async def test_a_worker_finds_its_head_by_name_and_both_run_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.nodeplane.TIMEOUT", 180.0)
    async with node_plane(tmp_path, cache=SHARED) as node:
        healthy = {"httpGet": {"port": 8265, "path": "/api/gcs_healthz"}}
        head = await start(node, "head", HEAD, healthy)
        port = {"name": "gcs", "port": 6379}
        service = {"metadata": {"name": "head"}, "spec": {"clusterIP": "None", "ports": [port]}}
        await node.client.create(SERVICES, "default", service)
        address = head["status"]["podIP"]
        endpoints = {
            "metadata": {"name": "head", "labels": {"kubernetes.io/service-name": "head"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [port],
        }
        await node.client.create(ENDPOINT_SLICES, "default", endpoints)
        check = "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz"
        raylet = {"exec": {"command": ["bash", "-c", f"{check} | grep success"]}}
        await start(node, "worker", WORKER, raylet)
        assert await node.execute("python", "-c", TASKS, name="head") == "['head', 'worker']\n"
        for name in ("worker", "head"):
            await node.delete(name)
            await node.until_gone(name)
