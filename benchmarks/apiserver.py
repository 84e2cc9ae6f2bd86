"""The embedded API server beside a real kube-apiserver with etcd: same client, TLS, JSON, same run.

Operations per second for two kinds at 1 and 16 clients, watch fan-out to 100 watchers, and the
time from start to ready. The two servers take turns, so that a slow minute of the machine hits
both; a ratio above 1 means that the embedded one is faster. etcd syncs every commit to disk, the
embedded server does so with `--durable` only: both ways are measured.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchmarks.objects import NAMESPACE, config_map, make_ready, must, ray_cluster
from benchmarks.operators import tell
from benchmarks.servers import Running, embedded, kubernetes
from benchmarks.wire import Target, Wire

ROUNDS = 3
CALLS = {1: 300, 16: 1600}
WATCHERS, WRITES, WRITES_PER_SECOND = 100, 200, 20
VERBS = ("create", "get", "update", "patch", "delete")
STARTS = 5
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind is written."""

    name: str
    path: str
    make: Callable[[str], dict[str, Any]]
    patch: Callable[[int], dict[str, Any]]


KINDS = (
    Kind(
        "configmaps",
        f"/api/v1/namespaces/{NAMESPACE}/configmaps",
        config_map,
        lambda number: {"data": {"changed": str(number)}},
    ),
    Kind(
        "rayclusters",
        f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters",
        ray_cluster,
        lambda number: {"spec": {"rayVersion": f"2.60.{number}"}},
    ),
)


class Clients:
    """Some connections that share the calls of one phase."""

    def __init__(self, kind: Kind, wires: list[Wire], calls: int) -> None:
        self._kind = kind
        self._wires = wires
        self._names = [f"object-{number}" for number in range(calls)]
        self._latest: dict[str, dict[str, Any]] = {}
        self._acts: dict[str, Callable[[Wire, str], Awaitable[None]]] = {
            "create": self._create,
            "get": self._get,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }

    async def rate(self, verb: str) -> float:
        act = self._acts[verb]
        shares = [self._names[first :: len(self._wires)] for first in range(len(self._wires))]
        began = time.perf_counter()
        await asyncio.gather(
            *(self._work(act, wire, names) for wire, names in zip(self._wires, shares, strict=True))
        )
        return len(self._names) / (time.perf_counter() - began)

    async def _work(
        self, act: Callable[[Wire, str], Awaitable[None]], wire: Wire, names: list[str]
    ) -> None:
        for name in names:
            await act(wire, name)

    async def _create(self, wire: Wire, name: str) -> None:
        body = msgspec.json.encode(self._kind.make(name))
        await must(wire, "POST", self._kind.path, body)

    async def _get(self, wire: Wire, name: str) -> None:
        answer = await must(wire, "GET", f"{self._kind.path}/{name}")
        self._latest[name] = msgspec.json.decode(answer)

    async def _update(self, wire: Wire, name: str) -> None:
        """As a client does that has read the object: everything is sent back, and its version."""
        body = self._latest.pop(name)
        body["metadata"]["labels"] = {"round": "second"}
        await must(wire, "PUT", f"{self._kind.path}/{name}", msgspec.json.encode(body))

    async def _patch(self, wire: Wire, name: str) -> None:
        body = msgspec.json.encode(self._kind.patch(len(name)))
        await must(wire, "PATCH", f"{self._kind.path}/{name}", body, MERGE)

    async def _delete(self, wire: Wire, name: str) -> None:
        await must(wire, "DELETE", f"{self._kind.path}/{name}")


@dataclass
class Rates:
    """Calls per second by (kind, clients, verb), one figure a round."""

    seen: dict[tuple[str, int, str], list[float]] = field(default_factory=dict)

    async def measure(self, target: Target) -> None:
        for kind in KINDS:
            for count, calls in CALLS.items():
                wires = [await Wire.connect(target) for _ in range(count)]
                clients = Clients(kind, wires, calls)
                for verb in VERBS:
                    rate = await clients.rate(verb)
                    self.seen.setdefault((kind.name, count, verb), []).append(rate)
                for wire in wires:
                    wire.close()

    def medians(self) -> dict[tuple[str, int, str], float]:
        return {place: statistics.median(rates) for place, rates in self.seen.items()}


class FanOut:
    """One writer, many watchers: milliseconds from sending a write to hearing of it."""

    def __init__(self) -> None:
        self._sent: list[float] = []
        self._late: list[float] = []

    def _heard(self, chunk: bytes) -> None:
        now = time.perf_counter()
        start = chunk.find(b'"moment":"')
        while start >= 0:
            number = int(chunk[start + 10 : chunk.index(b'"', start + 10)])
            self._late.append(1000 * (now - self._sent[number]))
            start = chunk.find(b'"moment":"', start + 10)

    async def measure(self, target: Target) -> dict[str, float]:
        path = KINDS[0].path
        writer = await Wire.connect(target)
        made = await must(writer, "POST", path, msgspec.json.encode(config_map("watched")))
        since = msgspec.json.decode(made)["metadata"]["resourceVersion"]
        watchers = [await Wire.connect(target) for _ in range(WATCHERS)]
        for watcher in watchers:
            watcher.listen(f"{path}?watch=1&resourceVersion={since}", self._heard)
        await asyncio.sleep(1)
        await self._write(writer, path)
        for _ in range(100):
            if len(self._late) >= WATCHERS * WRITES:
                break
            await asyncio.sleep(0.05)
        result = self._result()
        for watcher in watchers:
            watcher.close()
        await must(writer, "DELETE", f"{path}/watched")
        writer.close()
        return result

    async def _write(self, writer: Wire, path: str) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for number in range(WRITES):
            await asyncio.sleep(max(0.0, begin + number / WRITES_PER_SECOND - loop.time()))
            body = msgspec.json.encode({"data": {"moment": str(number)}})
            self._sent.append(time.perf_counter())
            await must(writer, "PATCH", f"{path}/watched", body, MERGE)

    def _result(self) -> dict[str, float]:
        if len(self._late) != WATCHERS * WRITES:
            raise RuntimeError(f"{len(self._late)} of {WATCHERS * WRITES} events came")
        ordered = sorted(self._late)
        return {
            "p50_ms": round(ordered[len(ordered) // 2], 2),
            "p99_ms": round(ordered[len(ordered) * 99 // 100], 2),
            "max_ms": round(ordered[-1], 2),
        }


async def compare(servers: list[Running]) -> dict[str, Any]:
    for server in servers:
        await make_ready(server.target)
    rates = {server.name: Rates() for server in servers}
    fan_out: dict[str, list[dict[str, float]]] = {server.name: [] for server in servers}
    for number in range(ROUNDS):
        for server in servers if number % 2 == 0 else reversed(servers):
            print(f"round {number + 1}: {server.name}", file=sys.stderr, flush=True)
            await rates[server.name].measure(server.target)
            fan_out[server.name].append(await FanOut().measure(server.target))
    return {
        "operations_per_second": _table({name: one.medians() for name, one in rates.items()}),
        "fan_out_to_100_watchers": {name: _middle(runs) for name, runs in fan_out.items()},
    }


def _table(medians: dict[str, dict[tuple[str, int, str], float]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for place in medians["embedded"]:
        kind, clients, verb = place
        row: dict[str, float] = {name: round(one[place]) for name, one in medians.items()}
        if "kubernetes" in medians:
            theirs = medians["kubernetes"][place]
            row["ratio"] = round(medians["embedded"][place] / theirs, 2)
            row["durable_ratio"] = round(medians["embedded_durable"][place] / theirs, 2)
        table.setdefault(kind, {}).setdefault(f"{clients}_clients", {})[verb] = row
    return table


def _middle(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median([run[name] for run in runs]) for name in runs[0]}


def start_seconds(directory: Path) -> dict[str, float]:
    """From the start of the process to the kubeconfig: in a new place, and where one was."""
    fresh: list[float] = []
    again: list[float] = []
    for number in range(STARTS):
        place = directory / f"start-{number}"
        for times in (fresh, again):
            with embedded(place) as server:
                times.append(server.seconds_to_ready)
    return {
        "new_directory": round(statistics.median(fresh), 3),
        "known_directory": round(statistics.median(again), 3),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        directory = Path(temporary)
        starts = start_seconds(directory)
        ours = stack.enter_context(embedded(directory / "embedded", "--no-controllers"))
        synced = stack.enter_context(
            embedded(directory / "durable", "--no-controllers", "--durable")
        )
        synced = replace(synced, name="embedded_durable")
        theirs = stack.enter_context(
            kubernetes(directory / "real", "kube-controller-manager", "kube-scheduler")
        )
        compared = uvloop.run(compare([ours, synced] if theirs is None else [ours, synced, theirs]))
        ready: dict[str, Any] = {"embedded": starts}
        if theirs is not None:
            ready["kubernetes_with_etcd"] = round(theirs.seconds_to_ready, 2)
    peer = "none: Go is not here to build it" if theirs is None else "kube-apiserver 1.35 and etcd"
    tell(
        peer=peer,
        **compared,
        seconds_to_ready=ready,
        goal="every ratio at least 1, fan-out p99 under 20 ms, ready in under 1 s",
    )


if __name__ == "__main__":
    main()
