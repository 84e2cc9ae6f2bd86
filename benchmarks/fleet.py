"""Creates a fleet of RayClusters through the API and watches their status."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from benchmarks.objects import must, ray_cluster
from benchmarks.wire import Target, Wire

TIMEOUT = 600.0
CLUSTERS = "/apis/ray.io/v1/rayclusters"
RAY_PODS = "/api/v1/pods?labelSelector=ray.io%2Fcluster"


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
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Future[None]] = set()
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
        async with asyncio.timeout(TIMEOUT):
            while True:
                status, answer = await self._wire.call("GET", path)
                if status == 200 and good(msgspec.json.decode(answer)):
                    return
                await asyncio.sleep(0.1)

    async def _listen(self, path: str, see: Callable[[_Event], None]) -> None:
        """Also after the server has let us go for being slow: the watch begins with all there is."""
        wire = await Wire.connect(self._target)
        self._rest[path] = b""
        if path == RAY_PODS:
            self.pods.clear()

        def chunk(data: bytes) -> None:
            *lines, self._rest[path] = (self._rest[path] + data).split(b"\n")
            for line in lines:
                see(_event(line))
            self._changed.set()

        def again() -> None:
            self._tasks.add(asyncio.ensure_future(self._listen(path, see)))

        wire.listen(f"{path}{'&' if '?' in path else '?'}watch=1", chunk, again)

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
            return
        pods.add(meta.uid)
        if meta.uid not in self._seen:
            self._seen.add(meta.uid)
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

    async def delete_all(self) -> None:
        for namespace in {namespace for namespace, _ in self.clusters}:
            path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
            await must(self._wire, "DELETE", path)
        await self.until(lambda: not self.clusters and not any(self.pods.values()))
        self._wanted.clear()
        self.ready.clear()

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
        async with asyncio.timeout(TIMEOUT):
            while not check():
                self._changed.clear()
                await self._changed.wait()

    async def pods_alone(
        self, namespace: str, count: int, wide: int, url: str | None = None
    ) -> float:
        """Seconds for Pods without an operator, by `wide` clients that wait for each answer.

        One is how KubeRay creates them; many show what the server allows, or allows at `url`.
        """
        status, answer = await self._wire.call("GET", f"{RAY_PODS}&limit=1")
        assert status == 200
        pattern = msgspec.json.decode(answer)["items"][0]
        spec = {k: v for k, v in pattern["spec"].items() if k not in ("nodeName", "hostname")}
        spec["containers"] = [dict(one) for one in spec["containers"]]
        labels = pattern["metadata"]["labels"] | {"ray.io/cluster": "alone"}
        path = f"/api/v1/namespaces/{namespace}/pods"
        target = self._target if url is None else replace(self._target, url=url)
        wires = [await Wire.connect(target) for _ in range(wide)]

        async def share(first: int) -> None:
            for number in range(first, count, wide):
                meta = {"name": f"alone-{number}", "labels": labels}
                body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
                await must(wires[first], "POST", path, msgspec.json.encode(body))

        began = time.perf_counter()
        await asyncio.gather(*(share(first) for first in range(wide)))
        seconds = time.perf_counter() - began
        for wire in wires:
            wire.close()
        await must(self._wire, "DELETE", f"{path}?labelSelector=ray.io%2Fcluster%3Dalone")
        await self.until(lambda: not self.pods.get((namespace, "alone")))
        return seconds


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(v, 3) if isinstance(v, float) else v for name, v in values.items()}
