"""Canaries for tests: objects, and what must hold at every moment of one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import RayService
from manta.api.resources import PODS, SERVICES
from manta.ray.models import Unreachable
from manta.ray.transport import Reply
from support.raycluster import container, group, template
from support.rayservice import Check, Scenario
from support.rayservice_objects import cluster_config
from support.virtual import running

GPU = "nvidia.com/gpu"


def canary(*weights: int, pause: int = 10, **options: Any) -> dict[str, Any]:
    steps = [{"weight": weight, "pauseSeconds": pause} for weight in weights or (25, 50)]
    return {"type": "Canary", "canaryUpgradeOptions": {"steps": steps, **options}}


def has_traffic(percent: int) -> Check:
    """The pending cluster has reached this step."""

    def check(service: RayService) -> bool:
        side = service.status.pending_service_status
        return side.traffic_routed_percent == percent and bool(side.last_traffic_migrated_time)

    return check


def gpu_config(image: str = "rayproject/ray:2.60.0", workers: int = 4) -> dict[str, Any]:
    """A cluster whose workers have one GPU each."""
    resources = {"limits": {"cpu": "1", GPU: "1"}}
    worker = template(container(resources=resources))
    return cluster_config(image, groups=[group("gpu", workers, template=worker)])


def no_image(pod: dict[str, Any], kind: str, image: str) -> dict[str, Any] | None:
    """The kubelet finds no image for the Pods of this kind of this image."""
    labels, ray = pod["metadata"]["labels"], pod["spec"]["containers"][0]
    if labels.get("ray.io/node-type") != kind or ray["image"] != image:
        return None
    why = {"reason": "ImagePullBackOff", "message": f"Back-off pulling image {image}"}
    status = {"name": ray["name"], "ready": False, "restartCount": 0, "state": {"waiting": why}}
    return {"phase": "Pending", "containerStatuses": [{**status, "image": image, "imageID": ""}]}


@dataclass
class GpuOracle:
    """Watches all Pods and the serve Service: the GPUs held at once, and the share of the new cluster."""

    scenario: Scenario
    most_gpus: int = 0
    shares: list[tuple[int, int]] = field(default_factory=list)
    """(Pods of the old cluster, Pods of the new one) behind the Service, in order."""
    empty: int = 0
    """How often the Service had no Pod at all after its first."""
    images: dict[str, str] = field(default_factory=dict)
    """Of the head of each cluster."""
    _pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    _selector: dict[str, str] = field(default_factory=dict)
    _clusters: list[str] = field(default_factory=list)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(PODS, self._pod))
            tasks.create_task(self._watch(SERVICES, self._service))
            tasks.create_task(self._watch(RAY_CLUSTERS, self._cluster))

    async def _watch(self, resource: Any, see: Any) -> None:
        while True:
            async for event in self.scenario.client.watch(resource, initial_events=True):
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    see(event.type, event.object)
                    self._look()

    def _pod(self, type_: str, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["labels"].get("ray.io/cluster", "")
        if name not in self._clusters:
            self._clusters.append(name)
        uid = pod["metadata"]["uid"]
        self._pods.pop(uid, None) if type_ == "DELETED" else self._pods.update({uid: pod})

    @property
    def pods(self) -> list[dict[str, Any]]:
        return list(self._pods.values())

    def _cluster(self, _: str, cluster: dict[str, Any]) -> None:
        head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        self.images[cluster["metadata"]["name"]] = head["image"]

    def _service(self, type_: str, service: dict[str, Any]) -> None:
        if service["metadata"]["name"] == f"{self.scenario.name}-serve-svc" and type_ != "DELETED":
            self._selector = service["spec"]["selector"]

    def _look(self) -> None:
        pods = self._pods.values()
        self.most_gpus = max(self.most_gpus, sum(map(_gpus, pods)))
        if not self._selector:
            return
        behind = Counter(
            pod["metadata"]["labels"]["ray.io/cluster"]
            for pod in pods
            if self._selector.items() <= pod["metadata"]["labels"].items() and _is_ready(pod)
        )
        if not behind:
            self.empty += bool(self.shares)
            return
        old = behind[self._clusters[0]]
        share = (old, sum(behind.values()) - old)
        if share not in self.shares[-1:]:
            self.shares.append(share)


def _gpus(pod: dict[str, Any]) -> int:
    ray = pod["spec"]["containers"][0]
    return int(ray.get("resources", {}).get("limits", {}).get(GPU, 0))


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


@asynccontextmanager
async def gpus_watched(scenario: Scenario) -> AsyncIterator[GpuOracle]:
    oracle = GpuOracle(scenario)
    async with running(oracle.run()):
        yield oracle


@dataclass
class FakeTraffic:
    """Requests to all Pods behind the Service, as Serve's metrics count them."""

    oracle: GpuOracle
    per_second: float = 20.0
    """Of each Pod."""
    error_share: dict[str, float] = field(default_factory=dict)
    """Of the requests to the Pods with this image."""
    milliseconds: dict[str, int] = field(default_factory=dict)
    hangs: set[str] = field(default_factory=set)
    """Images whose Pods take requests and answer none."""
    ignored: set[str] = field(default_factory=set)
    """Images whose Pods get no request: the callers keep open connections to others."""
    unreachable: bool = False
    _counted: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)

    def page(self, url: str) -> Reply | Unreachable:
        if self.unreachable:
            return Unreachable("no answer within 2 s")
        ip, now = url.removeprefix("http://").partition(":")[0], asyncio.get_running_loop().time()
        image = self._image(ip)
        at, requests, errors, waiting = self._counted.get(ip, (now, 0.0, 0.0, 0.0))
        more = 0.0 if image in self.ignored else (now - at) * self.per_second
        more, waiting = (0.0, waiting + more) if image in self.hangs else (more + waiting, 0.0)
        requests, errors = requests + more, errors + more * self.error_share.get(image, 0.0)
        self._counted[ip] = (now, requests, errors, waiting)
        return Reply(200, _page(requests, errors, waiting, self.milliseconds.get(image, 10)))

    def _image(self, ip: str) -> str:
        for pod in self.oracle.pods:
            if (pod.get("status") or {}).get("podIP") == ip:
                head = pod["metadata"]["labels"]["ray.io/cluster"]
                return self.oracle.images.get(head, "")
        return ""


def _page(requests: float, errors: float, waiting: float, took: int) -> bytes:
    family = "ray_serve_num_http_requests_total"
    latency = "ray_serve_http_request_latency_ms_bucket"
    lines = [
        "# TYPE ray_serve_num_http_requests counter",
        f'{family}{{route="/",method="GET",application="app",status_code="200"}} {requests - errors}',
        f'{family}{{route="/",method="GET",application="app",status_code="500"}} {errors}',
        f'ray_serve_num_ongoing_http_requests{{node_id="n"}} {waiting}',
        f'{latency}{{route="/",le="{took / 2}"}} 0.0',
        f'{latency}{{route="/",le="{float(took)}"}} {requests}',
        f'{latency}{{route="/",le="+Inf"}} {requests}',
    ]
    return "\n".join(lines).encode()
