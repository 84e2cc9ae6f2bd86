"""The API of the console: how soon a watch sends its first event, and whether it is alive after 5 minutes.

`manta console` and the embedded API server are processes of their own. The same watch on the API server itself is
measured beside it. Goals: first event within 100 ms, alive after 5 minutes.

    python -m benchmarks.console_api [SECONDS]
"""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.operators import tell
from benchmarks.servers import embedded
from benchmarks.wire import Target, Wire
from manta.api.crds import crd_documents
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.connect import connect

ROUNDS = 40
SECONDS = 300.0
EVERY = 20.0
"""Seconds between two changes during the long watch."""
WATCH = "/apis/ray.io/v1/namespaces/default/rayclusters?watch=true"


def cluster(name: str) -> dict[str, object]:
    template = {"spec": {"containers": [{"name": "ray", "image": "i"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {"headGroupSpec": {"rayStartParams": {}, "template": template}},
    }


@contextmanager
def console(directory: Path) -> Iterator[str]:
    """The address of a console of the API server in this directory."""
    command = [str(Path(sys.executable).with_name("manta")), "console", "--dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://[^/ ]+:(\d+)/", process.stdout.readline())
            assert found is not None, "the console printed no link"
            yield f"http://localhost:{found[1]}"
        finally:
            process.terminate()


async def first_event(target: Target) -> float:
    """Milliseconds from the request until the first event, on a connection that is open."""
    wire = await Wire.connect(target)
    came: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def on_chunk(_: bytes) -> None:
        if not came.done():
            came.set_result(time.perf_counter())

    began = time.perf_counter()
    wire.listen(WATCH, on_chunk)
    taken = 1000 * (await asyncio.wait_for(came, 30) - began)
    wire.close()
    return taken


async def long_watch(target: Target, client: Client, seconds: float) -> dict[str, object]:
    """A watch that is held for so long, with a change now and then: what came, how late, and whether it ended."""
    wire = await Wire.connect(target)
    delays: list[float] = []
    sent: dict[str, float] = {}
    ended: list[float] = []
    began = time.perf_counter()

    def on_chunk(chunk: bytes) -> None:
        for line in chunk.splitlines():
            name = msgspec.json.decode(line)["object"]["metadata"]["name"]
            if name in sent:
                delays.append(1000 * (time.perf_counter() - sent.pop(name)))

    wire.listen(WATCH, on_chunk, lambda: ended.append(time.perf_counter() - began))
    number = 0
    while time.perf_counter() - began < seconds:
        await asyncio.sleep(min(EVERY, seconds))
        name = f"later-{number}"
        sent[name] = time.perf_counter()
        await client.create(RAY_CLUSTERS, "default", cluster(name))
        number += 1
    await asyncio.sleep(2)
    alive = not ended and not wire.closed
    wire.close()
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "alive": alive,
        "changes": number,
        "events_missing": len(sent),
        "change_to_event_ms_median": round(statistics.median(delays), 1) if delays else None,
        "change_to_event_ms_max": round(max(delays), 1) if delays else None,
    }


def _figures(found: list[float]) -> dict[str, float]:
    ordered = sorted(found)
    return {
        "median_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[int(0.95 * (len(ordered) - 1))], 1),
        "max_ms": round(ordered[-1], 1),
    }


async def measure(folder: Path, seconds: float) -> None:
    with embedded(folder / "plane") as server:
        client = await connect(load(server.kubeconfig))
        for crd in crd_documents():
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        await asyncio.sleep(1)
        await client.create(RAY_CLUSTERS, "default", cluster("first"))
        with console(folder / "plane") as url:
            token = load(server.kubeconfig).user.token or await _token(client)
            target = Target(url, None, token)
            through = [await first_event(target) for _ in range(ROUNDS)]
            direct = [await first_event(server.target) for _ in range(ROUNDS)]
            held = await long_watch(target, client, seconds)
        await client.close()
    tell(
        first_event_through_the_console=_figures(through),
        first_event_of_the_api_server_itself=_figures(direct),
        watch=held,
    )


async def _token(client: Client) -> str:
    """Of a ServiceAccount that may see everything."""
    headers = {"content-type": "application/json"}
    account = msgspec.json.encode({"metadata": {"name": "reader"}})
    path = "/api/v1/namespaces/default/serviceaccounts"
    await client.send("POST", path, headers=headers, body=account)
    binding = msgspec.json.encode(
        {
            "metadata": {"name": "reader"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
        }
    )
    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    await client.send("POST", rbac, headers=headers, body=binding)
    answer = await client.send("POST", f"{path}/reader/token", headers=headers, body=b'{"spec":{}}')
    return str(msgspec.json.decode(answer.body)["status"]["token"])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        asyncio.run(measure(Path(folder), seconds))


if __name__ == "__main__":
    main()
