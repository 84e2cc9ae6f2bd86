"""A cluster that grows from 0 to 300 where the server is 20 and 40 ms away, by Manta and by KubeRay.

On loopback a request waits for the processor alone, and more of them at once gain little. With latency
each request waits for the network, and a real server allows several times what one after the other
gets. The two operators take turns on one server, so that a slow minute of the machine is everyone's;
clients without an operator, 16 at once, show what the server allows.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from benchmarks.fleet import Fleet, rounded
from benchmarks.latency_proxy import latency_proxy
from benchmarks.operator_process import Operator, an_operator, kuberay, prepare
from benchmarks.operators import tell
from benchmarks.raycluster_fleet import (
    BIG,
    KUBERAY,
    REST,
    WIDE,
    a_fleet,
    on_kubernetes,
    say,
    shrink,
)
from benchmarks.servers import Running
from manta.kube.config import load

DELAYS = (0.01, 0.02)
"""Seconds to a server that is not on this machine; there and back is twice that."""
TURNS, REPEATS = 2, 3
"""Every operator has so many turns at each distance, and grows its cluster so often in each."""

StartAt = Callable[[str], AbstractAsyncContextManager[Operator]]
"""An operator, at that address of its server."""


async def grow_with_latency(fleet: Fleet, url: str) -> tuple[list[float], list[float]]:
    """Seconds for the 300 Pods alone: by an operator that has a way to go to its server, and by
    clients without one that go the same way."""
    big = ("small-0", "far")
    await fleet.create(big, 0)
    await fleet.until(lambda: big in fleet.ready)
    grown, at_once = [], []
    for _ in range(REPEATS):
        began = await fleet.scale(big, BIG)
        await fleet.until(lambda: big in fleet.ready)
        grown.append(fleet.last_pod[big] - began)
        await shrink(fleet, big)
        at_once.append(await fleet.pods_alone("small-1", BIG, WIDE, url))
        await asyncio.sleep(REST)
    await fleet.delete(big)
    return grown, at_once


async def compare_operators(
    server: Running, fleet: Fleet, operators: dict[str, StartAt]
) -> list[dict[str, Any]]:
    """At every distance; the operators in turn, so that a slow minute of the machine is everyone's."""
    result = []
    for far in DELAYS:
        grown: dict[str, list[float]] = {name: [] for name in operators}
        at_once = []
        async with latency_proxy(server.target.url, far) as url:
            for _ in range(TURNS):
                for name, start in operators.items():
                    say(f"{server.name}, {far} s away: a big one by {name}")
                    async with start(url):
                        seconds, alone = await grow_with_latency(fleet, url)
                    grown[name] += seconds
                    at_once += alone
        medians = {name: statistics.median(seconds) for name, seconds in grown.items()}
        distance: dict[str, Any] = {"round_trip_seconds": 2 * far}
        distance |= {
            f"seconds_for_300_pods_by_{name}": seconds for name, seconds in medians.items()
        }
        distance["sixteen_at_once_seconds"] = statistics.median(at_once)
        if "kuberay" in medians:
            distance["times_as_fast"] = medians["kuberay"] / medians["manta"]
            allowed = medians["kuberay"] / distance["sixteen_at_once_seconds"]
            distance["times_as_fast_as_the_server_allows"] = allowed
        result.append(rounded(distance))
    return result


def moved(kubeconfig: Path, url: str) -> Path:
    """A kubeconfig for the same server at another address."""
    path = kubeconfig.with_suffix(".latency")
    path.write_text(kubeconfig.read_text().replace(load(kubeconfig).server, url))
    path.chmod(0o600)
    return path


async def measure_with_latency(server: Running, directory: Path, _count: int) -> dict[str, Any]:
    kubeconfig = await prepare(server, directory)  # KubeRay's kinds are ours
    log = directory / "operator.log"
    operators: dict[str, StartAt] = {
        "manta": lambda url: an_operator(moved(kubeconfig, url), log),
    }
    if KUBERAY.is_file():
        operators["kuberay"] = lambda url: kuberay(KUBERAY, moved(server.kubeconfig, url), log)
    return {"distances": await compare_operators(server, await a_fleet(server), operators)}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        measured = on_kubernetes(Path(directory), 0, measure_with_latency)
    tell(kubernetes=measured, goal="300 Pods 3 times as fast as KubeRay, where the server allows")


if __name__ == "__main__":
    main()
