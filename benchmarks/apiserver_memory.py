"""What the embedded server needs to hold 20,000 objects, with the four CRDs and a journal on disk.

16,000 Pods as an operator creates them and a kubelet reports on them (5 KB each), and 4,000
RayClusters. Beside it, in the same run, a real kube-apiserver that holds nothing but the CRDs:
the peer is let off the objects.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks.memory import peak_mib, rss_mib
from benchmarks.objects import NAMESPACE, make_ready, must, ray_cluster
from benchmarks.operators import tell
from benchmarks.pods import a_created_pod, status_of
from benchmarks.servers import embedded, kubernetes
from benchmarks.wire import Target, Wire

PODS, CLUSTERS, CLIENTS = 16_000, 4_000, 16
SETTLING_SECONDS = 5
TIDYING_SECONDS = 30
"""A started server packs what it has loaded, little by little."""
POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLUSTER_PATH = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"


async def _pod(wire: Wire, number: int) -> int:
    body = a_created_pod(number)
    made = msgspec.json.decode(await must(wire, "POST", POD_PATH, msgspec.json.encode(body)))
    made["status"] = status_of(number)
    path = f"{POD_PATH}/{made['metadata']['name']}/status"
    return len(await must(wire, "PUT", path, msgspec.json.encode(made)))


async def _cluster(wire: Wire, number: int) -> int:
    body = msgspec.json.encode(ray_cluster(f"cluster-{number}"))
    return len(await must(wire, "POST", CLUSTER_PATH, body))


async def _all(target: Target, make: Callable[[Wire, int], Awaitable[int]], count: int) -> int:
    """The bytes that lie there afterwards."""

    async def share(first: int) -> int:
        wire = await Wire.connect(target)
        sizes = [await make(wire, number) for number in range(first, count, CLIENTS)]
        wire.close()
        return sum(sizes)

    return sum(await asyncio.gather(*(share(first) for first in range(CLIENTS))))


async def fill(target: Target) -> dict[str, Any]:
    await make_ready(target)
    began = time.perf_counter()
    pods = await _all(target, _pod, PODS)
    clusters = await _all(target, _cluster, CLUSTERS)
    seconds = time.perf_counter() - began
    return {
        "objects": PODS + CLUSTERS,
        "bytes_per_pod": pods // PODS,
        "json_mib": round((pods + clusters) / 2**20, 1),
        "fill_seconds": round(seconds, 1),
    }


async def list_seconds(target: Target) -> float:
    """All Pods in one answer, packed or not."""
    wire = await Wire.connect(target)
    began = time.perf_counter()
    await must(wire, "GET", POD_PATH)
    wire.close()
    return round(time.perf_counter() - began, 2)


def peer_mib(directory: Path) -> float | None:
    with kubernetes(directory, "kube-controller-manager", "kube-scheduler") as real:
        if real is None:
            return None
        uvloop.run(make_ready(real.target))
        time.sleep(SETTLING_SECONDS)
        return round(sum(rss_mib(pid) for pid in real.pids), 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        with embedded(directory / "embedded", "--no-controllers") as server:
            (pid,) = server.pids
            empty = rss_mib(pid)
            filled = uvloop.run(fill(server.target))
            time.sleep(SETTLING_SECONDS)
            held, peak = rss_mib(pid), peak_mib(pid)
            listed = uvloop.run(list_seconds(server.target))
            peak_with_list = peak_mib(pid)
        with embedded(directory / "embedded", "--no-controllers") as server:
            restarted = {"seconds": round(server.seconds_to_ready, 2)}
            time.sleep(TIDYING_SECONDS)
            restarted["rss_mib"] = round(rss_mib(server.pids[0]), 1)
        print("the peer", file=sys.stderr, flush=True)
        peer = peer_mib(directory / "real")
    tell(
        **filled,
        empty_rss_mib=round(empty, 1),
        rss_mib=round(held, 1),
        peak_rss_mib=round(peak, 1),
        peak_rss_with_a_list_of_all_mib=round(peak_with_list, 1),
        list_all_pods_seconds=listed,
        restarted=restarted,
        kubernetes_with_etcd_and_crds_only_mib=peer,
        ratio_to_kubernetes=None if peer is None else round(held / peer, 2),
        goal="rss_mib at most 200",
    )


if __name__ == "__main__":
    main()
