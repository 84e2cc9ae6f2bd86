"""Clusters that sleep: what 500 watched ones cost, and how long a resume takes against a cold start.

The dashboards are a process of their own and answer over real HTTP that nobody uses them. Resume and cold start
are of the same cluster, in turn, in the same run: of real Ray, and of a head that is a small program, which shows what the
operator and the node add without the noise of Ray's own start. `--small`: only those of the small head.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from benchmarks import idle_hours
from benchmarks.operators import tell
from benchmarks.planes import client_of, manta, plane_directory, seconds_until
from manta.api.crds import crd_documents
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS, Resource
from manta.controllers.idlesuspend import controller as idlesuspend
from manta.kube.client import Client
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.inprocess import InProcessTransport
from manta.localplane.store.store import Store
from manta.ray.dashboard import Dashboard
from manta.ray.models import Target, Unreachable
from manta.ray.transport import DirectTransport, Reply
from manta.rules.settings import Settings
from manta.runtime.clock import SystemClock
from manta.runtime.manager import Manager

WATCHED, SECONDS = 500, 150
"""Two rounds of questions: with a limit of 30 minutes every cluster is asked every 72 seconds."""
ROUNDS, SMALL_ROUNDS = 6, 20
AFTER = "manta.ray.io/idle-suspend-after"


def rows(total: int) -> dict[str, Any]:
    found = {"total": total, "num_after_truncation": total, "num_filtered": 0, "result": []}
    return {"result": True, "data": {"result": found | {"partial_failure_warning": ""}}}


def serve_dashboards(pipe: Connection) -> None:
    """Every dashboard: nobody uses the cluster."""
    driver = {"driver": {"is_active": "INACTIVE", "reason": None, "last_activity_at": 1.5}}
    bodies = {"comp": json.dumps(driver), "acto": json.dumps(rows(7)), "plac": json.dumps(rows(0))}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
                kind = head.partition("?")[0].rpartition("/")[2][:4]
                body = bodies[kind].encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        except asyncio.IncompleteReadError:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


class Local(DirectTransport):
    """All dashboards are at one port of this machine."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.requests = 0

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        self.requests += 1
        here = Target(target.namespace, target.service, "127.0.0.1", self.port)
        return await super().send(here, method, path, body)


class Counting(InProcessTransport):
    writes = 0

    async def send(self, request: Any) -> Any:
        self.writes += request.method != "GET"
        return await super().send(request)


def a_cluster(number: int) -> dict[str, Any]:
    container = {"name": "ray", "image": "rayproject/ray:2.60.0"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": f"c-{number}", "annotations": {AFTER: "30m"}},
        "spec": {"headGroupSpec": {"template": {"spec": {"containers": [container]}}}},
    }


async def add(client: Client, number: int) -> None:
    """A cluster whose head is ready."""
    name = f"head-{number}"
    pod = {
        "metadata": {"name": name, "labels": {"ray.io/node-type": "head"}},
        "spec": {"containers": [{"name": "ray", "image": "ray"}]},
    }
    ready = {"name": "ray", "ready": True, "restartCount": 0, "image": "ray", "imageID": ""}
    await client.create(RAY_CLUSTERS, "default", a_cluster(number))
    await client.create(PODS, "default", pod)
    await status(client, PODS, name, {"phase": "Running", "containerStatuses": [ready]})
    await status(client, RAY_CLUSTERS, f"c-{number}", {"head": {"podName": name}})


async def status(client: Client, resource: Resource, name: str, value: dict[str, Any]) -> None:
    await client.patch(resource, Key("default", name), {"status": value}, subresource="status")


async def watch_many(port: int) -> dict[str, Any]:
    store = Store(elapsed=time.monotonic)
    app = App(store, clock=SystemClock().now, random=Random(1))
    bootstrap(app)
    for crd in crd_documents():
        app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd)
    transport, dashboards = Counting(app), Local(port)
    client = Client(transport)
    for number in range(WATCHED):
        await add(client, number)
    transport.writes = 0
    manager = Manager(client, SystemClock(), Random(1))
    idlesuspend.build(manager, Settings(), Dashboard(dashboards))
    running = asyncio.create_task(manager.run())
    while dashboards.requests < 3 * WATCHED:
        await asyncio.sleep(1)
    await asyncio.sleep(10)
    writes, asked, cpu = transport.writes, dashboards.requests, time.process_time()
    await asyncio.sleep(SECONDS)
    used = time.process_time() - cpu
    manager.stop()
    await running
    await dashboards.close()
    return {
        "watched": WATCHED,
        "requests_a_second": round((dashboards.requests - asked) / SECONDS, 1),
        "cpu_percent_of_a_core": round(100 * used / SECONDS, 2),
        "writes_at_rest": transport.writes - writes,
        "writes_to_note_idleness": writes,
    }


# ── resume against a cold start ──────────────────────────────────────────────────────────


def real_cluster() -> dict[str, Any]:
    document = a_cluster(0)
    document["metadata"]["annotations"] = {AFTER: "10h"}
    document["spec"]["rayVersion"] = "2.60.0"
    return document


def small_cluster() -> dict[str, Any]:
    document = idle_hours.a_cluster(0, gpus=1, seconds=0)
    document["metadata"]["annotations"][AFTER] = "10h"
    return document


def is_state(wanted: str) -> Any:
    return lambda one: one.get("status", {}).get("state") == wanted


async def compare(client: Client, document: dict[str, Any]) -> tuple[float, float]:
    """Seconds of a cold start and of a resume."""
    key = Key("default", "c-0")
    await client.create(RAY_CLUSTERS, "default", document)
    cold = await seconds_until(client, RAY_CLUSTERS, key, is_state("ready"))
    marks = {"annotations": {"manta.ray.io/idle-suspended": "2026-01-01T00:00:00Z"}}
    await client.patch(RAY_CLUSTERS, key, {"metadata": marks, "spec": {"suspend": True}})
    await seconds_until(client, RAY_CLUSTERS, key, is_state("suspended"))
    await client.patch(RAY_CLUSTERS, key, {"spec": {"suspend": False}})
    resumed = await seconds_until(client, RAY_CLUSTERS, key, is_state("ready"))
    await client.delete(RAY_CLUSTERS, key)
    while (await client.list(PODS, "default")).items:
        await asyncio.sleep(0.2)
    return cold, resumed


async def resume_rounds(directory: Any, document: Any, rounds: int) -> list[tuple[float, float]]:
    async with client_of(directory) as client:
        await compare(client, document)  # makes the environment if there is none
        return [await compare(client, document) for _ in range(rounds)]


def figures_of(rounds: list[tuple[float, float]], prefix: str = "") -> dict[str, Any]:
    cold, resumed = (statistics.median(one) for one in zip(*rounds, strict=True))
    return {
        f"{prefix}cold_start_seconds": round(cold, 2),
        f"{prefix}resume_seconds": round(resumed, 2),
        f"{prefix}resume_to_cold_start": round(resumed / cold, 2),
        f"{prefix}all_rounds": [[round(one, 2) for one in pair] for pair in rounds],
    }


def resumes(*, small: bool) -> dict[str, Any]:
    with plane_directory() as directory:
        manta(directory, "up", "--cpus", "4", "--fake-gpus", "1")
        rounds = asyncio.run(resume_rounds(directory, small_cluster(), SMALL_ROUNDS))
        found = figures_of(rounds, "small_head_")
        if not small:
            found |= figures_of(asyncio.run(resume_rounds(directory, real_cluster(), ROUNDS)))
    return found


def main() -> None:
    if "--small" in sys.argv[1:]:
        tell(**resumes(small=True))
        return
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve_dashboards, args=(theirs,))
    server.start()
    try:
        watched = asyncio.run(watch_many(ours.recv()))
    finally:
        server.terminate()
    tell(
        **watched,
        **resumes(small=False),
        goal="cpu at most 3 percent, writes_at_rest 0, resume_to_cold_start at most 1.1",
    )


if __name__ == "__main__":
    main()
