"""Clusters that sleep: what 500 watched ones cost, and how long a resume takes against a cold start.

The dashboards are a process of their own and answer over real HTTP that nobody uses them. Resume and cold start
are of the same cluster, in turn, in the same run: of real Ray with a worker, which `ray job submit` then wakes too, and of
a head that is a small program, which shows what the operator and the node add without the noise of Ray's own start.
Arguments choose parts: `watched`, `small`, `ray`.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import idle_hours
from benchmarks.operators import tell
from benchmarks.planes import client_of, command, manta, plane_directory, seconds_until
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
ROUNDS, SMALL_ROUNDS = 3, 20
PARTS = ("watched", "small", "ray")
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
        except (asyncio.IncompleteReadError, ConnectionResetError):
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
        self.requests = self.failed = 0

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        self.requests += 1
        here = Target(target.namespace, target.service, "127.0.0.1", self.port)
        reply = await super().send(here, method, path, body)
        self.failed += isinstance(reply, Unreachable)
        return reply


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
        "failed_requests": dashboards.failed,
        "writes_to_note_idleness": writes,
    }


# ── resume against a cold start ──────────────────────────────────────────────────────────
KEY = Key("default", "c-0")


def real_cluster() -> dict[str, Any]:
    document = a_cluster(0)
    document["metadata"]["annotations"] = {AFTER: "10h"}
    document["spec"]["rayVersion"] = "2.60.0"
    template = document["spec"]["headGroupSpec"]["template"]
    # Without a request a Pod has next to no share of a CPU that others use too.
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    group = {"groupName": "workers", "replicas": 1, "template": template}
    document["spec"]["workerGroupSpecs"] = [group]
    return document


def small_cluster() -> dict[str, Any]:
    document = idle_hours.a_cluster(0, gpus=1, seconds=0)
    document["metadata"]["annotations"][AFTER] = "10h"
    return document


def is_state(wanted: str) -> Any:
    return lambda one: one.get("status", {}).get("state") == wanted


@dataclass(frozen=True)
class Round:
    """Seconds."""

    cold_start: float
    resume: float
    submit: float = 0.0
    """`ray job submit` to the sleeping cluster, until its job has succeeded."""


@dataclass(frozen=True)
class Comparison:
    """The rounds of one cluster."""

    directory: Path
    client: Client
    document: dict[str, Any]
    submits: bool = False

    async def rounds(self, count: int) -> list[Round]:
        await self._start()  # makes the environment if there is none
        await self._delete()
        return [await self._round() for _ in range(count)]

    async def _round(self) -> Round:
        cold = await self._start()
        await self._sleep()
        resumed = await self._resume()
        print(f"cold start {cold:.2f} s, resume {resumed:.2f} s", file=sys.stderr, flush=True)
        submitted = await self._submit() if self.submits else 0.0
        await self._delete()
        found = Round(cold, resumed, submitted)
        print(found, file=sys.stderr, flush=True)
        return found

    async def _start(self) -> float:
        await self.client.create(RAY_CLUSTERS, "default", self.document)
        return await self._seconds_until("ready")

    async def _sleep(self) -> None:
        """As the operator does it after the limit."""
        marks = {"annotations": {"manta.ray.io/idle-suspended": "2026-01-01T00:00:00Z"}}
        patch = {"metadata": marks, "spec": {"suspend": True}}
        await self.client.patch(RAY_CLUSTERS, KEY, patch)
        await self._seconds_until("suspended")

    async def _resume(self) -> float:
        await self.client.patch(RAY_CLUSTERS, KEY, {"spec": {"suspend": False}})
        return await self._seconds_until("ready")

    async def _submit(self) -> float:
        """The address is that of `manta dashboard`, which was opened before the cluster slept."""
        cluster = await self.client.get(RAY_CLUSTERS, KEY)
        head = cluster["status"]["head"]["podName"]
        ask = "import sys; print(sys.executable)"
        python = Path(manta(self.directory, "exec", head, "--", "python", "-c", ask).strip())
        with dashboard(self.directory) as address:
            await self._sleep()
            ray = python.with_name("ray")
            words = (ray, "job", "submit", "--address", address, "--", "echo", "awake")
            began = time.perf_counter()
            done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
            seconds = time.perf_counter() - began
        if done.returncode or "succeeded" not in done.stdout:
            raise RuntimeError(f"ray job submit: {done.stdout}\n{done.stderr}")
        await self._seconds_until("ready")
        return seconds

    async def _seconds_until(self, state: str) -> float:
        return await seconds_until(self.client, RAY_CLUSTERS, KEY, is_state(state))

    async def _delete(self) -> None:
        await self.client.delete(RAY_CLUSTERS, KEY)
        while (await self.client.list(PODS, "default")).items:
            await asyncio.sleep(0.2)


@contextmanager
def dashboard(directory: Path) -> Iterator[str]:
    """`manta dashboard`, and the address that it prints."""
    words = command(directory, "dashboard", "--no-browser", KEY.name)
    env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r"http://\S+", line)
            if found is None:
                raise RuntimeError(f"manta dashboard: {line}")
            yield found.group()
        finally:
            process.terminate()


def figures_of(rounds: Sequence[Round], prefix: str = "") -> dict[str, Any]:
    cold = statistics.median(one.cold_start for one in rounds)
    resumed = statistics.median(one.resume for one in rounds)
    submits = [one.submit for one in rounds if one.submit]
    return {
        f"{prefix}cold_start_seconds": round(cold, 2),
        f"{prefix}resume_seconds": round(resumed, 2),
        f"{prefix}resume_to_cold_start": round(resumed / cold, 2),
        f"{prefix}all_rounds": [[round(one.cold_start, 2), round(one.resume, 2)] for one in rounds],
        **({"submits_to_a_sleeping_cluster": len(submits)} if submits else {}),
        **({"submit_seconds": round(statistics.median(submits), 2)} if submits else {}),
    }


async def resumes(directory: Path, parts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with client_of(directory) as client:
        if "small" in parts:
            small = Comparison(directory, client, small_cluster())
            found |= figures_of(await small.rounds(SMALL_ROUNDS), "small_head_")
        if "ray" in parts:
            real = Comparison(directory, client, real_cluster(), submits=True)
            found |= figures_of(await real.rounds(ROUNDS))
    return found


def watched() -> dict[str, Any]:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve_dashboards, args=(theirs,))
    server.start()
    try:
        return asyncio.run(watch_many(ours.recv()))
    finally:
        server.terminate()


def main() -> None:
    parts = sys.argv[1:] or PARTS
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"no part is called {min(unknown)}; there are {', '.join(PARTS)}")
    found = watched() if "watched" in parts else {}
    if {"small", "ray"} & set(parts):
        with plane_directory() as directory:
            manta(directory, "up", "--cpus", "4", "--fake-gpus", "1")
            found |= asyncio.run(resumes(directory, parts))
    tell(
        **found,
        goal="cpu at most 3 percent, writes_at_rest 0, resume_to_cold_start at most 1.1",
    )


if __name__ == "__main__":
    main()
