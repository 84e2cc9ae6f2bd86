"""A fleet of RayClusters and the operator that looks after it, seen from outside.

The operator is a process of its own under its own ServiceAccount. What it asked of the server is
read from its metrics, its time and memory from /proc, and what became of the clusters from a
watch by the driver.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.memory import cpu_seconds, peak_mib
from benchmarks.objects import must, ray_cluster
from benchmarks.servers import Running
from benchmarks.wire import Target, Wire
from manta.cli.installation import install, operator_token
from manta.kube.client import Client
from manta.kube.credentials import load
from manta.kube.transport import HttpTransport
from manta.localplane.kubeconfig import write_kubeconfig

PATIENCE = 600.0
CLUSTERS = "/apis/ray.io/v1/rayclusters"
RAY_PODS = "/api/v1/pods?labelSelector=ray.io%2Fcluster"


# ── the operator ─────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Operator:
    pid: int
    metrics: str

    def requests(self) -> Counter[str]:
        """What it has asked so far, as `create pods`."""
        found: Counter[str] = Counter()
        text = urllib.request.urlopen(self.metrics, timeout=20).read().decode()
        for line in text.splitlines():
            if line.startswith("manta_api_requests_total{"):
                labels, _, count = line.partition("{")[2].rpartition("} ")
                told = dict(one.split("=", 1) for one in labels.split(","))
                verb, resource = told["verb"].strip('"'), told["resource"].strip('"')
                found[f"{verb} {resource}"] += int(float(count))
        return found


WATCHING = ("watch", "list")


def only_work(requests: Counter[str]) -> Counter[str]:
    """Without what keeps the caches: watches that are renewed."""
    return Counter({name: n for name, n in requests.items() if not name.startswith(WATCHING)})


def writes(requests: Counter[str]) -> Counter[str]:
    read = ("watch", "list", "get")
    return Counter({name: n for name, n in requests.items() if not name.startswith(read)})


async def prepare(server: Running, directory: Path) -> Path:
    """CRDs, the operator's account and permissions; answers with its kubeconfig."""
    cluster = load(server.kubeconfig)
    client = Client(HttpTransport(cluster))
    try:
        await install(client)
        token = await operator_token(client, 7200)
    finally:
        await client.close()
    authority = cluster.ca.read_bytes() if isinstance(cluster.ca, Path) else cluster.ca or b""
    path = directory / "operator.kubeconfig"
    write_kubeconfig(path, url=cluster.server, authority=authority.decode(), token=token)
    return path


@asynccontextmanager
async def an_operator(kubeconfig: Path, log: Path, *flags: str) -> AsyncIterator[Operator]:
    """With its default settings, but no election: a lease is renewed whatever happens."""
    port = _free_port()
    command = [sys.executable, "-m", "manta.cli.main", "operator", f"--kubeconfig={kubeconfig}"]
    command += ["--enable-leader-election=false", f"--metrics-addr=127.0.0.1:{port}"]
    command += ["--health-probe-bind-address=0", *flags]
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    operator = Operator(process.pid, f"http://127.0.0.1:{port}/metrics")
    try:
        await _answering(operator, log)
        yield operator
    finally:
        process.terminate()
        process.wait(30)


async def _answering(operator: Operator, log: Path) -> None:
    for _ in range(300):
        try:
            if (await asyncio.to_thread(operator.requests))["watch pods"]:
                return
        except OSError:
            pass
        await asyncio.sleep(0.1)
    raise RuntimeError(log.read_text()[-2000:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Phase:
    """What the operator did and needed between two moments."""

    operator: Operator
    began: float = 0.0
    _asked: Counter[str] = field(default_factory=Counter)
    _cpu: float = 0.0

    async def begin(self) -> Phase:
        self._asked = await asyncio.to_thread(self.operator.requests)
        Path(f"/proc/{self.operator.pid}/clear_refs").write_text("5")  # the peak begins anew
        self._cpu = cpu_seconds(self.operator.pid)
        self.began = time.perf_counter()
        return self

    def cpu(self) -> float:
        return cpu_seconds(self.operator.pid) - self._cpu

    def peak(self) -> float:
        return peak_mib(self.operator.pid)

    async def requests(self) -> Counter[str]:
        return (await asyncio.to_thread(self.operator.requests)) - self._asked


# ── the fleet ────────────────────────────────────────────────────────────────────────────
class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    state: str = ""
    available_worker_replicas: int = 0
    desired_worker_replicas: int = 0


class _Object(msgspec.Struct):
    metadata: _Meta
    status: _Status = _Status()


class _Event(msgspec.Struct):
    type: str
    object: _Object


_event = msgspec.json.Decoder(_Event).decode


def _all_take_pods(nodes: Any) -> bool:
    """A real cluster marks new nodes as not ready, and takes the mark away a little later."""
    return bool(nodes["items"]) and not any(one["spec"].get("taints") for one in nodes["items"])


class Fleet:
    """The driver: creates clusters, and notes when they are ready and when Pods appear."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._wire: Wire = None  # type: ignore[assignment]  # set by `open`
        self._wanted: dict[tuple[str, str], int] = {}
        self._changed = asyncio.Event()
        self._rest: dict[str, bytes] = {}
        self.sent: dict[tuple[str, str], float] = {}
        self.ready: dict[tuple[str, str], float] = {}
        self.last_pod: dict[tuple[str, str], float] = {}
        self.pods: dict[tuple[str, str], set[str]] = {}
        self.clusters: set[tuple[str, str]] = set()

    async def open(self, *namespaces: str) -> Fleet:
        self._wire = await Wire.connect(self._target)
        for name in namespaces:
            body = msgspec.json.encode({"metadata": {"name": name}})
            await must(self._wire, "POST", "/api/v1/namespaces", body)
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            while (await self._wire.call("GET", account))[0] != 200:
                await asyncio.sleep(0.02)
        await self._until_served(CLUSTERS, lambda _: True)
        await self._until_served("/api/v1/nodes", _all_take_pods)
        await self._listen(CLUSTERS, self._see_cluster)
        await self._listen(RAY_PODS, self._see_pod)
        return self

    async def _until_served(self, path: str, good: Callable[[Any], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                status, answer = await self._wire.call("GET", path)
                if status == 200 and good(msgspec.json.decode(answer)):
                    return
                await asyncio.sleep(0.1)

    async def _listen(self, path: str, see: Callable[[_Event], None]) -> None:
        wire = await Wire.connect(self._target)
        self._rest[path] = b""

        def chunk(data: bytes) -> None:
            *lines, self._rest[path] = (self._rest[path] + data).split(b"\n")
            for line in lines:
                see(_event(line))
            self._changed.set()

        wire.listen(f"{path}{'&' if '?' in path else '?'}watch=1", chunk)

    def _see_cluster(self, event: _Event) -> None:
        meta, status = event.object.metadata, event.object.status
        key = (meta.namespace, meta.name)
        if event.type == "DELETED":
            self.clusters.discard(key)
            return
        self.clusters.add(key)
        wanted = self._wanted.get(key)
        complete = status.available_worker_replicas == status.desired_worker_replicas == wanted
        if key not in self.ready and status.state == "ready" and complete:
            self.ready[key] = time.perf_counter()

    def _see_pod(self, event: _Event) -> None:
        meta = event.object.metadata
        key = (meta.namespace, meta.labels["ray.io/cluster"])
        pods = self.pods.setdefault(key, set())
        if event.type == "DELETED":
            pods.discard(meta.uid)
        elif meta.uid not in pods:
            pods.add(meta.uid)
            self.last_pod[key] = time.perf_counter()

    async def create(self, key: tuple[str, str], workers: int, wire: Wire | None = None) -> None:
        body = ray_cluster(key[1], workers, key[0])
        body["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 1000
        for group in (body["spec"]["headGroupSpec"], body["spec"]["workerGroupSpecs"][0]):
            container = group["template"]["spec"]["containers"][0]
            container["resources"] = {"limits": {"cpu": "1"}, "requests": {"cpu": "10m"}}
        self._wanted[key] = workers
        self.sent[key] = time.perf_counter()
        path = f"/apis/ray.io/v1/namespaces/{key[0]}/rayclusters"
        await must(wire or self._wire, "POST", path, msgspec.json.encode(body))

    async def scale(self, key: tuple[str, str], workers: int) -> float:
        self.ready.pop(key, None)
        self._wanted[key] = workers
        path = f"/apis/ray.io/v1/namespaces/{key[0]}/rayclusters/{key[1]}"
        patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": workers}]
        began = time.perf_counter()
        body = msgspec.json.encode(patch)
        await must(self._wire, "PATCH", path, body, "application/json-patch+json")
        return began

    async def delete(self, key: tuple[str, str]) -> None:
        path = f"/apis/ray.io/v1/namespaces/{key[0]}/rayclusters/{key[1]}"
        del self._wanted[key]
        await must(self._wire, "DELETE", path)
        await self.until(lambda: not self.pods.get(key))

    async def create_many(self, count: int, workers: int, rate: float, namespaces: int) -> None:
        """At a fixed rate, over some connections."""
        keys = [(f"fleet-{number % namespaces}", f"rc-{number:05}") for number in range(count)]
        wires = [await Wire.connect(self._target) for _ in range(8)]
        began = time.perf_counter()

        async def share(first: int) -> None:
            for number in range(first, count, len(wires)):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                await self.create(keys[number], workers, wires[first])

        await asyncio.gather(*(share(first) for first in range(len(wires))))
        for wire in wires:
            wire.close()

    async def until(self, check: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not check():
                self._changed.clear()
                await self._changed.wait()

    async def one_after_the_other(self, namespace: str, count: int) -> float:
        """Pods by one client that waits for each answer, as KubeRay creates them; seconds."""
        status, answer = await self._wire.call("GET", f"{RAY_PODS}&limit=1")
        assert status == 200
        pattern = msgspec.json.decode(answer)["items"][0]
        spec = {k: v for k, v in pattern["spec"].items() if k not in ("nodeName", "hostname")}
        spec["containers"] = [dict(one) for one in spec["containers"]]
        labels = pattern["metadata"]["labels"] | {"ray.io/cluster": "sequence"}
        began = time.perf_counter()
        for number in range(count):
            meta = {"name": f"sequence-{number}", "labels": labels}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            path = f"/api/v1/namespaces/{namespace}/pods"
            await must(self._wire, "POST", path, msgspec.json.encode(body))
        seconds = time.perf_counter() - began
        await must(
            self._wire,
            "DELETE",
            f"/api/v1/namespaces/{namespace}/pods?labelSelector=ray.io%2Fcluster%3Dsequence",
        )
        await self.until(lambda: not self.pods.get((namespace, "sequence")))
        return seconds


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(v, 3) if isinstance(v, float) else v for name, v in values.items()}
