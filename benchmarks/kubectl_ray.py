"""`kubectl ray` as a user feels it: the help, and a read. Goals: 200 ms and 300 ms on a warm machine.

Wall time and CPU time of the whole process; on a busy machine only the CPU time says something.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.operators import tell

ROUNDS = 15
PLUGIN = Path(sys.executable).parent / "kubectl-ray"
SERVER = """
import asyncio, sys
from pathlib import Path
from manta.api.crds import crd_documents
from manta.api.ray.resources import RAY_CLUSTERS
from manta.localplane.plane import Plane, PlaneOptions

async def main():
    options = PlaneOptions(Path(sys.argv[1]), memory=True, controllers=False)
    async with Plane(options) as plane:
        for crd in crd_documents():
            plane.app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd)
        template = {"spec": {"containers": [{"name": "ray", "image": "i"}]}}
        for number in range(20):
            body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": f"c{number}"},
                    "spec": {"headGroupSpec": {"template": template}}}
            await plane.client.create(RAY_CLUSTERS, "default", body)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline().strip() == "ready"
            environment = {**os.environ, "KUBECONFIG": f"{folder}/kubeconfig"}
            helped = [timed(["--help"], environment) for _ in range(ROUNDS)]
            read = [timed(["get", "cluster"], environment) for _ in range(ROUNDS)]
        finally:
            server.communicate("")
    tell(
        help_ms=middle(helped, 0),
        help_cpu_ms=middle(helped, 1),
        get_cluster_ms=middle(read, 0),
        get_cluster_cpu_ms=middle(read, 1),
        goal="help_ms under 200, get_cluster_ms under 300",
    )


def middle(times: list[tuple[float, float]], which: int) -> int:
    return round(1000 * statistics.median(one[which] for one in times))


def timed(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of wall time and of CPU time."""
    before, began = _cpu(), time.perf_counter()
    subprocess.run([PLUGIN, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began, _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
