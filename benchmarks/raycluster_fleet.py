"""1,000 RayClusters of one head and three workers, on the embedded server and on a real one.

Fake nodes, so that the operator and the server are what is measured: requests, processor time and
memory of the operator per cluster; how long until clusters are ready; what a small cluster feels
of a big one; the steady state; a restart. KubeRay is the peer where
`MANTA_KUBERAY_BINARY` names its operator 1.7.0; recorded figures of it stand beside in any case.

    python -m benchmarks.raycluster_fleet [--count N] [--only PART]
    python -m benchmarks.raycluster_fleet --only turns --count 150

`turns`: both operators take turns on one real server, so that its CPU time for each can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import Any

import uvloop
from tools.kubernetes.run import running

from benchmarks.fleet import Fleet, percentile, rounded
from benchmarks.operator_process import (
    Operator,
    Phase,
    an_operator,
    kuberay,
    only_work,
    prepare,
    writes,
)
from benchmarks.operators import tell
from benchmarks.servers import Running, embedded, kubernetes

COUNT, WORKERS, RATE, NAMESPACES, NODES = 1000, 3, 100.0, 10, 20
BIG, REPEATS, WIDE = 300, 9, 16
TURNS = 3
LAGS = (0.2, 0.6, 1.0)
"""How far the big one has come when the small one is created, seconds; in turn."""
REST = 1.5
"""For the server, when hundreds of Pods have gone."""
SETTLING, STEADY = 10.0, 30.0
KUBERAY = Path(os.environ.get("MANTA_KUBERAY_BINARY", "").replace("{release}", "1.7.0"))
TUNED = ("--reconcile-concurrency=10", "--qps=1000", "--burst=2000")

Measure = Callable[[Running, Path, int], Coroutine[Any, Any, dict[str, Any]]]
OnServer = Callable[[Path, int, Measure], dict[str, Any] | None]
RECORDED = {
    "requests_per_cluster": 11.0,
    "operator_cpu_ms_per_cluster": "12-22",
    "peak_rss_mib": "236-248",
    "all_ready_seconds": "default 92-155, tuned 65-87",
    "median_to_ready_of_total": "0.82-0.91",
    "small_beside_300": "13 times its time alone (default), 1.6 (tuned)",
    "seconds_for_300_pods": "3.2-5.2",
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def shrink(fleet: Fleet, big: tuple[str, str]) -> None:
    await fleet.scale(big, 0)
    await fleet.until(lambda: len(fleet.pods.get(big, ())) <= 1 and big in fleet.ready)
    await asyncio.sleep(REST)


async def small_beside_big(fleet: Fleet) -> dict[str, Any]:
    """A small cluster alone, then beside one that grows from 0 to 300."""
    big = ("small-0", "big")
    await fleet.create(big, 0)
    await fleet.until(lambda: big in fleet.ready)
    alone, beside, pods, one_by_one, at_once = [], [], [], [], []
    for number in range(REPEATS):
        key = ("small-1", f"alone-{number}")
        await fleet.create(key, WORKERS)
        await fleet.until(lambda key=key: key in fleet.ready)  # type: ignore[misc]
        alone.append(fleet.ready[key] - fleet.sent[key])
        await fleet.delete(key)
        one_by_one.append(await fleet.pods_alone("small-1", BIG, 1))
        at_once.append(await fleet.pods_alone("small-1", BIG, WIDE))
        await asyncio.sleep(REST)
        key = ("small-1", f"beside-{number}")
        began = await fleet.scale(big, BIG)
        await asyncio.sleep(LAGS[number % len(LAGS)])
        await fleet.create(key, WORKERS)
        await fleet.until(lambda key=key: key in fleet.ready and big in fleet.ready)  # type: ignore[misc]
        beside.append(fleet.ready[key] - fleet.sent[key])
        pods.append(fleet.last_pod[big] - began)
        await fleet.delete(key)
        await shrink(fleet, big)
    await fleet.delete(big)
    result = {
        "small_alone_seconds": statistics.median(alone),
        "small_beside_300_seconds": statistics.median(beside),
        "ratio": statistics.median(beside) / statistics.median(alone),
        "seconds_for_300_pods": statistics.median(pods),
        "one_after_the_other_seconds": statistics.median(one_by_one),
        "sixteen_at_once_seconds": statistics.median(at_once),
        "times_as_fast": statistics.median(one_by_one) / statistics.median(pods),
        "times_as_fast_as_the_server_allows": statistics.median(one_by_one)
        / statistics.median(at_once),
    }
    return rounded(result)


async def grow(fleet: Fleet, phase: Phase, count: int) -> dict[str, Any]:
    await phase.begin()
    await fleet.create_many(count, WORKERS, RATE, NAMESPACES)
    await fleet.until(lambda: len(fleet.ready) == count)
    total = time.perf_counter() - phase.began
    cpu, server_cpu, peak = phase.cpu(), phase.server_cpu(), phase.peak()
    await asyncio.sleep(SETTLING)
    asked = only_work(await phase.requests())
    waits = [fleet.ready[key] - fleet.sent[key] for key in fleet.ready]
    result = {
        "requests_per_cluster": sum(asked.values()) / count,
        "requests": {name: round(n / count, 3) for name, n in asked.most_common()},
        "operator_cpu_ms_per_cluster": 1000 * cpu / count,
        "api_server_cpu_ms_per_cluster": 1000 * server_cpu / count,
        "peak_rss_mib": peak,
        "all_ready_seconds": total,
        "to_ready_p50_seconds": percentile(waits, 0.5),
        "to_ready_p99_seconds": percentile(waits, 0.99),
        "median_to_ready_of_total": percentile(waits, 0.5) / total,
    }
    return rounded(result)


async def a_fleet(server: Running) -> Fleet:
    names = [f"fleet-{number}" for number in range(NAMESPACES)]
    return await Fleet(server.target).open("small-0", "small-1", *names)


async def measure(server: Running, directory: Path, count: int) -> dict[str, Any]:
    kubeconfig = await prepare(server, directory)
    log = directory / "operator.log"
    fleet = await a_fleet(server)
    result: dict[str, Any] = {}
    async with an_operator(kubeconfig, log) as operator:
        say(f"{server.name}: a small one beside a big one")
        result["small_beside_300"] = await small_beside_big(fleet)
        fleet.ready.clear()
        say(f"{server.name}: {count} clusters")
        phase = Phase(operator, server.api_server_pid)
        result["fleet"] = {"clusters": count, **await grow(fleet, phase, count)}
        say(f"{server.name}: nothing happens")
        await phase.begin()
        await asyncio.sleep(STEADY)
        result["steady"] = {
            "seconds": STEADY,
            "requests": dict(only_work(await phase.requests())),
            "cpu_seconds": round(phase.cpu(), 2),
        }
    say(f"{server.name}: a new operator finds {count} clusters")
    async with an_operator(kubeconfig, log) as operator:
        await asyncio.sleep(SETTLING)
        asked = await asyncio.to_thread(operator.requests)
        result["restart"] = {"clusters": count, "writes": dict(writes(asked))}
    return result


async def measure_kuberay(server: Running, directory: Path, count: int) -> dict[str, Any]:
    """The same by KubeRay: a small one beside a big one by default, the fleet at its best."""
    await prepare(server, directory)  # its kinds are ours
    log = directory / "kuberay.log"
    fleet = await a_fleet(server)
    result: dict[str, Any] = {}
    async with kuberay(KUBERAY, server.kubeconfig, log):
        say("kuberay, default: a small one beside a big one")
        result["small_beside_300"] = await small_beside_big(fleet)
    fleet.ready.clear()
    async with kuberay(KUBERAY, server.kubeconfig, log, *TUNED) as operator:
        say(f"kuberay, tuned: {count} clusters")
        result["fleet"] = {
            "clusters": count,
            **await grow(fleet, Phase(operator, server.api_server_pid), count),
        }
    return result


async def measure_turns(server: Running, directory: Path, count: int) -> dict[str, Any]:
    """The same fleet by each operator in turn, on one server: medians, and ours as a share of KubeRay's."""
    kubeconfig = await prepare(server, directory)
    log = directory / "operator.log"
    fleet = await a_fleet(server)
    begin: dict[str, Callable[[], AbstractAsyncContextManager[Operator]]] = {
        "manta": lambda: an_operator(kubeconfig, log),
        "kuberay": lambda: kuberay(KUBERAY, server.kubeconfig, log, *TUNED),
    }
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in begin}
    for number in range(TURNS):
        for name in begin if number % 2 == 0 else reversed(begin):
            say(f"turn {number + 1}, {name}: {count} clusters")
            async with begin[name]() as operator:
                phase = Phase(operator, server.api_server_pid)
                seen[name].append(await grow(fleet, phase, count))
                await fleet.delete_all()
                await asyncio.sleep(REST)
    figures = [name for name, value in seen["manta"][0].items() if isinstance(value, float)]
    medians = {
        who: {f: statistics.median(one[f] for one in seen[who]) for f in figures} for who in seen
    }
    ratio = {f: medians["manta"][f] / medians["kuberay"][f] for f in figures}
    return {"clusters": count, **medians, "ratio": rounded(ratio), "turns": seen}


def on_embedded(directory: Path, count: int, by: Measure) -> dict[str, Any]:
    directory = directory / f"embedded-{by.__name__}"
    with embedded(directory, f"--fake-nodes={NODES}") as server:
        return uvloop.run(by(server, directory, count))


def on_kubernetes(directory: Path, count: int, by: Measure) -> dict[str, Any] | None:
    with ExitStack() as stack:
        directory = directory / by.__name__
        server = stack.enter_context(kubernetes(directory, "kube-scheduler"))
        if server is None:
            return None
        command = [sys.executable, "-m", "benchmarks.fakekubelet", str(server.kubeconfig)]
        environment = Path(__file__).parents[1]
        kubelet = [*command, str(NODES)]
        kubelet = ["env", f"PYTHONPATH={environment}", *kubelet]
        stack.enter_context(running(directory, "kubelet", kubelet))
        return uvloop.run(by(server, directory, count))


def main() -> None:
    parts: list[tuple[str, OnServer, Measure]] = [
        ("embedded", on_embedded, measure),
        ("kubernetes", on_kubernetes, measure),
    ]
    if KUBERAY.is_file():
        parts.append(("kuberay", on_kubernetes, measure_kuberay))
        parts.append(("turns", on_kubernetes, measure_turns))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--only", choices=[name for name, _, _ in parts])
    args = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, server, by in parts:
            if args.only in (None, name):
                result[name] = server(Path(directory), args.count, by)
    tell(
        **result,
        kuberay_recorded=RECORDED,
        goal="requests 9, the least with an Event for each reason (10 measured), CPU 12 ms, "
        "RSS 120 MiB, median to ready 0.5 of the total, small beside 300 within 1.3, steady and "
        "restart 0; 300 Pods 3 times as fast: raycluster_latency",
    )


if __name__ == "__main__":
    main()
