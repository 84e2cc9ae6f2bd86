"""500 RayServices that serve: what they cost at rest, and how soon traffic follows a new cluster.

The operator is a process of its own; plane, fake nodes and fake dashboards are in this one. The
dashboards stand behind the API server's proxy, so that every request to one is seen here. The peer,
in the same run, is a loop that asks each dashboard once in two seconds and does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.memory import cpu_seconds, rss_mib
from benchmarks.operators import AGENT, Requests, a_plane, an_operator, tell
from manta.api.core import Pod
from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from manta.api.resources import PODS, SERVICES
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.localplane.plane import Plane
from manta.rules.pod_health import is_ready

COUNT, SECONDS, PEER_PERIOD = 500, 40, 2.0
WAVES, WAVE = 10, 10
"""Upgrades that are under way at the same time, and how often."""
FLAGS = ("--use-kubernetes-proxy",)
SERVE = "/proxy/api/serve/applications/"
CONFIG = "applications: [{name: app, import_path: demo.app}]"
NEXT = "rayproject/ray:2.61.0"
Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]


@dataclass
class FakeServe:
    """The dashboards and proxies of all clusters, by head Service."""

    given: dict[str, float] = field(default_factory=dict)
    """When each was given a config."""
    running: set[str] = field(default_factory=set)
    at_once: bool = True
    """Applications run as soon as they were submitted; else when `running` says so."""
    asked: Counter[bool] = field(default_factory=Counter)
    """Questions to dashboards: by the operator (True), and by others."""
    probed: int = 0

    def answer(self, request: HttpRequest) -> HttpResponse:
        head = request.path.partition("/services/")[2].partition(":")[0]
        if not head:  # a Pod's Serve proxy
            self.probed += 1
            return HttpResponse(200, b"success")
        if request.method == "PUT":
            self.given[head] = time.perf_counter()
            if self.at_once:
                self.running.add(head)
            return HttpResponse(200, b"{}")
        self.asked[AGENT in request.headers.get("user-agent", "")] += 1
        status = "RUNNING" if head in self.running else "DEPLOYING"
        application = {"status": status, "message": "", "deployments": {}}
        known = {"app": application} if head in self.given else {}
        return HttpResponse(200, json.dumps({"applications": known}).encode())


@asynccontextmanager
async def a_serving_plane() -> AsyncIterator[tuple[Plane, Requests, FakeServe]]:
    serve = FakeServe()
    async with a_plane(fake_nodes=20) as (plane, requests):
        handle: Answer = plane.app.handle

        async def answering(request: HttpRequest) -> HttpResponse:
            if "/proxy/" in request.path:
                return serve.answer(request)
            return await handle(request)

        plane.app.handle = answering  # type: ignore[method-assign]
        yield plane, requests, serve


def a_service(number: int) -> dict[str, Any]:
    def group(name: str) -> dict[str, Any]:
        container = {"name": name, "image": "rayproject/ray:2.60.0"}
        return {"template": {"spec": {"containers": [container]}}}

    worker = {"groupName": "workers", "replicas": 1, "minReplicas": 1, "maxReplicas": 1}
    config = {
        "rayVersion": "2.60.0",
        "headGroupSpec": group("ray-head"),
        "workerGroupSpecs": [worker | group("ray-worker")],
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": f"service-{number}"},
        "spec": {"serveConfigV2": CONFIG, "rayClusterConfig": config},
    }


async def until_ready(plane: Plane, wanted: int) -> None:
    while True:
        found = (await plane.client.list(RAY_SERVICES, "default")).items
        ready = sum(one.get("status", {}).get("serviceStatus") == "Running" for one in found)
        sys.stderr.write(f"\r{ready} of {wanted} serve")
        if ready == wanted:
            sys.stderr.write("\n")
            return
        await asyncio.sleep(2)


# ── at rest ──────────────────────────────────────────────────────────────────────────────


async def at_rest(pid: int, requests: Requests, serve: FakeServe) -> dict[str, Any]:
    seen, asked, probed = len(requests.seen), serve.asked[True], serve.probed
    used = cpu_seconds(pid)
    await asyncio.sleep(SECONDS)
    writes = [one for one in requests.seen[seen:] if one[0] != "GET"]
    return {
        "writes": len(writes),
        "cpu_percent_of_a_core": round(100 * (cpu_seconds(pid) - used) / SECONDS, 2),
        "dashboard_requests_per_second": round((serve.asked[True] - asked) / SECONDS, 2),
        "proxy_probes_per_second": round((serve.probed - probed) / SECONDS, 2),
        "rss_mib": round(rss_mib(pid), 1),
    }


async def peer(plane: Plane, serve: FakeServe) -> dict[str, Any]:
    """Its own process, so that its processor time is its own."""
    heads = sorted(serve.given)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.rayservice",
        "--peer",
        str(plane.kubeconfig),
        *heads,
        stdout=asyncio.subprocess.DEVNULL,
    )
    await asyncio.sleep(5)
    asked, used = serve.asked[False], cpu_seconds(process.pid)
    await asyncio.sleep(SECONDS)
    measured = {
        "cpu_percent_of_a_core": round(100 * (cpu_seconds(process.pid) - used) / SECONDS, 2),
        "dashboard_requests_per_second": round((serve.asked[False] - asked) / SECONDS, 2),
    }
    process.terminate()
    await process.wait()
    return measured


async def ask_for_ever(kubeconfig: Path, heads: list[str]) -> None:
    from manta.client.dashboard import ProxyTransport
    from manta.kube.config import load
    from manta.kube.connect import connect
    from manta.ray.dashboard import Dashboard
    from manta.ray.models import Target

    client = await connect(load([kubeconfig], context=None, environment={}))
    dashboard = Dashboard(ProxyTransport(client))

    async def loop(number: int, head: str) -> None:
        await asyncio.sleep(PEER_PERIOD * number / len(heads))
        target = Target("default", head, head)
        while True:
            began = time.monotonic()
            await dashboard.serve_status(target)
            await asyncio.sleep(max(PEER_PERIOD - (time.monotonic() - began), 0))

    await asyncio.gather(*(loop(number, head) for number, head in enumerate(heads)))


# ── the switch ───────────────────────────────────────────────────────────────────────────


async def switches(plane: Plane, serve: FakeServe) -> dict[str, Any]:
    """From the moment in which the last application runs to the Service that stands before it."""
    serve.at_once = False
    pointed: dict[str, float] = {}
    watcher = asyncio.create_task(_note_switches(plane, pointed))
    waits: list[float] = []
    for wave in range(WAVES):
        names = [f"service-{wave * WAVE + number}" for number in range(WAVE)]
        known = set(serve.given)
        for name in names:
            await _ask_for_another_image(plane, name)
        while len(serve.given.keys() - known) < WAVE:
            await asyncio.sleep(0.1)
        await _until_pods_take_requests(plane, serve.given.keys() - known)
        await asyncio.sleep(3)  # until the polling interval is stable
        waits += await _run_one_by_one(serve, sorted(serve.given.keys() - known), pointed)
    watcher.cancel()
    waits.sort()
    return {
        "upgrades": len(waits),
        "median_ms": round(1000 * statistics.median(waits)),
        "p95_ms": round(1000 * waits[int(len(waits) * 0.95)]),
        "p99_ms": round(1000 * waits[min(int(len(waits) * 0.99), len(waits) - 1)]),
        "longest_ms": round(1000 * waits[-1]),
    }


async def _until_pods_take_requests(plane: Plane, heads: set[str]) -> None:
    """Else it would be the Pods that a switch waits for, and not the applications."""
    clusters = ",".join(head.removesuffix("-head-svc") for head in heads)
    while True:
        labels = f"ray.io/cluster in ({clusters})"
        pods = (await plane.client.list(PODS, "default", labels=labels, into=Pod)).items
        if len(pods) == 2 * len(heads) and all(map(is_ready, pods)):
            return
        await asyncio.sleep(0.1)


async def _run_one_by_one(
    serve: FakeServe, heads: list[str], pointed: dict[str, float]
) -> list[float]:
    ran = {}
    for head in heads:
        ran[head] = time.perf_counter()
        serve.running.add(head)
        await asyncio.sleep(0.13)  # no multiple of a polling interval
    while not all(head in pointed for head in heads):
        await asyncio.sleep(0.05)
    return [pointed[head] - ran[head] for head in heads]


async def _ask_for_another_image(plane: Plane, name: str) -> None:
    path = "/spec/rayClusterConfig/headGroupSpec/template/spec/containers/0/image"
    patch = [{"op": "replace", "path": path, "value": NEXT}]
    await plane.client.patch(RAY_SERVICES, Key("default", name), patch, kind="json")


async def _note_switches(plane: Plane, pointed: dict[str, float]) -> None:
    async for event in plane.client.watch(SERVICES, into=dict, initial_events=True):
        if event.type in ("ADDED", "MODIFIED"):
            cluster = event.object["spec"].get("selector", {}).get("ray.io/cluster", "")
            if event.object["metadata"]["name"].endswith("-serve-svc"):
                pointed.setdefault(f"{cluster}-head-svc", time.perf_counter())


async def main() -> None:
    async with (
        a_serving_plane() as (plane, requests, serve),
        an_operator(plane, requests, *FLAGS) as process,
    ):
        for number in range(COUNT):
            await plane.client.create(RAY_SERVICES, "default", a_service(number))
        await until_ready(plane, COUNT)
        await asyncio.sleep(60)  # until every dashboard is polled at the long interval
        ours = await at_rest(process.pid, requests, serve)
        other = await peer(plane, serve)
        followed = await switches(plane, serve)
        tell(
            services=COUNT,
            at_rest=ours,
            peer_two_second_loop=other,
            switch=followed,
            goal="writes 0; cpu and requests at most a fifth of the peer's; switch p99 under 300 ms",
        )


if __name__ == "__main__":
    if "--peer" in sys.argv:
        at = sys.argv.index("--peer")
        asyncio.run(ask_for_ever(Path(sys.argv[at + 1]), sys.argv[at + 2 :]))
    else:
        asyncio.run(main())
