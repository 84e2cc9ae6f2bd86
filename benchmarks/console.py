"""The console with 1,000 RayClusters and 4,000 Pods on fake nodes, in 20 tabs of Chromium, and with 20 streams.

A browser shows one tab of a window, and a hidden tab holds no stream: of the 20 tabs one is being updated. So the same
changes are also sent to 20 streams at once, over HTTP, as 20 people with one tab each hold them.

The embedded API server, `manta console` and Chromium are processes of their own. The objects have the status that the
operator and the kubelets write. Goals: first paint within 1 s, p95 from a change to its pixel 500 ms, 60 MiB more than the
operator alone (all of the console's resident memory; `of_its_own` is without what the operator's process has loaded too), and
after a kill -9 the tabs recover by themselves.

    python -m benchmarks.console [CLUSTERS]
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.memory import cpu_seconds, own_mib, rss_mib
from benchmarks.objects import ray_cluster
from benchmarks.operators import tell
from benchmarks.pods import status_of
from benchmarks.servers import embedded
from manta.api.crds import crd_documents
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, PODS
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.connect import connect

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.browser import CHROMIUM, Page, browser

CLUSTERS = 1000
TABS = 20
CHANGES = 60
NODE_COUNT = 100
SPACES = 10
PORT = 18267
_READY = {"type": "HeadPodReady", "status": "True", "reason": "HeadPodRunningAndReady", "message": ""}  # fmt: skip


async def all_of(requests: Iterable[Awaitable[Any]], at_once: int = 24) -> None:
    turns = asyncio.Semaphore(at_once)

    async def one(request: Awaitable[Any]) -> None:
        async with turns:
            await request

    await asyncio.gather(*(one(request) for request in requests))


def status(ready: int, wanted: int = 3) -> dict[str, Any]:
    done = {**_READY, "type": "RayClusterProvisioned", "status": str(ready == wanted)}
    conditions = [one | {"lastTransitionTime": "2026-01-01T00:00:00Z"} for one in (_READY, done)]
    return {
        "state": "ready",
        "readyWorkerReplicas": ready,
        "availableWorkerReplicas": ready,
        "desiredWorkerReplicas": wanted,
        "desiredCPU": "4",
        "desiredMemory": "8Gi",
        "conditions": conditions,
        "observedGeneration": 1,
    }


async def make_cluster(client: Client, number: int) -> None:
    name, space = f"cluster-{number:04}", f"team-{number % SPACES}"
    key = Key(space, name)
    await client.create(RAY_CLUSTERS, space, ray_cluster(name, namespace=space))
    await client.patch(RAY_CLUSTERS, key, {"status": status(3)}, subresource="status")
    for at in range(4):
        labels = {
            "ray.io/cluster": name,
            "ray.io/node-type": "worker" if at else "head",
            "ray.io/group": "workers" if at else "headgroup",
        }
        resources = {"requests": {"cpu": "1", "memory": "2Gi"}}
        pod = {
            "metadata": {"name": f"{name}-{at}", "labels": labels},
            "spec": {
                "nodeName": f"node-{(4 * number + at) % NODE_COUNT}",
                "containers": [{"name": "ray", "image": "rayproject/ray:2.60.0", "resources": resources}],
            },
        }  # fmt: skip
        await client.create(PODS, space, pod)
        body = {"status": status_of(4 * number + at)}
        await client.patch(PODS, Key(space, f"{name}-{at}"), body, subresource="status")


async def fill(client: Client, clusters: int) -> None:
    for crd in crd_documents():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
    await asyncio.sleep(1)
    for number in range(SPACES):
        await client.create(NAMESPACES, "", {"metadata": {"name": f"team-{number}"}})
    room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    for number in range(NODE_COUNT):
        node = {"metadata": {"name": f"node-{number}"}, "status": {"capacity": room, "allocatable": room}}  # fmt: skip
        await client.create(NODES, "", node)
    await all_of(make_cluster(client, number) for number in range(clusters))


class Console:
    """`manta console` as a process that can be killed and started again on the same port."""

    def __init__(self, directory: Path) -> None:
        self._command = [
            *(str(Path(sys.executable).with_name("manta")), "console"),
            *("--dir", str(directory), "--port", str(PORT)),
        ]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """The link."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        [link] = [word for word in line.split() if "/login?token=" in word]
        return link

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGTERM)

    def end(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)
        assert self._process is not None
        self._process.wait()


_WATCH = """(() => { window.painted = {}; new MutationObserver(() => {
  for (const row of document.querySelectorAll('tr')) {
    const found = /(\\d+)\\/(\\d{4,})/.exec(row.innerText);
    if (found && !(found[2] in window.painted)) {
      window.painted[found[2]] = 0;
      requestAnimationFrame(() => requestAnimationFrame(() => {
        window.painted[found[2]] = performance.timeOrigin + performance.now(); }));
    } } }).observe(document.getElementById('fleet'), {childList: true, subtree: true}); return 1; })()"""


async def first_paint(page: Page, url: str, shows: str) -> float:
    """Milliseconds from the navigation to the first contentful paint."""
    await page.call("Page.bringToFront")  # a hidden tab paints nothing
    await page.open(url, shows)
    script = (
        "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)[0] || 0"
    )
    async with asyncio.timeout(30):
        while not (found := await page.run(script)):
            await asyncio.sleep(0.02)
    return float(found)


async def changes(client: Client, page: Page, count: int, clusters: int) -> list[float]:
    """Milliseconds from a write that the API server confirmed until the frame that shows it."""
    await page.run(_WATCH)
    written = await write(client, 1000, count, clusters)
    seen = await page.run("window.painted")
    return [seen[mark] - at for mark, at in written.items() if seen.get(mark)]


async def write(client: Client, first: int, count: int, clusters: int) -> dict[str, float]:
    """When each mark was written."""
    written: dict[str, float] = {}
    dice = random.Random(1)
    for mark in range(first, first + count):
        key = Key("team-0", f"cluster-{SPACES * dice.randrange(clusters // SPACES):04}")
        body = {"status": status(3) | {"desiredWorkerReplicas": mark}}
        await client.patch(RAY_CLUSTERS, key, body, subresource="status")
        written[str(mark)] = 1000 * time.time()
        await asyncio.sleep(0.25)
    await asyncio.sleep(3)
    return written


async def one_stream(base: str, cookie: str, seen: dict[str, float]) -> None:
    """A tab without a browser. Keeps when each mark came."""
    address = urlsplit(base)
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
    head = f"GET /stream?page=/?namespace=team-0 HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: {cookie}\r\n\r\n"
    writer.write(head.encode())
    try:
        assert b" 200 " in await reader.readline()
        held = ""
        while piece := await reader.read(1 << 20):
            held = held[-20:] + piece.decode("utf-8", "replace")
            for mark in re.findall(r"\d/(\d{4,})<", held):
                seen.setdefault(mark, 1000 * time.time())
    finally:
        writer.close()


async def cookie_of(page: Page, base: str) -> str:
    found = (await page.call("Network.getCookies", urls=[f"{base}/"]))["cookies"]
    return "; ".join(f"{one['name']}={one['value']}" for one in found)


async def streamed(
    client: Client, page: Page, base: str, pid: int, clusters: int
) -> dict[str, float]:
    """Milliseconds from a write to each of 20 streams, and the memory meanwhile."""
    cookie, seen = await cookie_of(page, base), [dict[str, float]() for _ in range(TABS)]
    await page.call("Page.navigate", url="about:blank")
    tasks = [asyncio.create_task(one_stream(base, cookie, one)) for one in seen]
    await asyncio.sleep(2)
    written = await write(client, 5000, CHANGES, clusters)
    resident = rss_mib(pid)
    for task in tasks:
        if task.done():
            task.result()  # a stream that has ended measures nothing
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    delays = sorted(one[mark] - at for one in seen for mark, at in written.items() if mark in one)
    return {
        "median_ms": round(statistics.median(delays)),
        "p95_ms": round(delays[int(0.95 * (len(delays) - 1))]),
        "missing": TABS * CHANGES - len(delays),
        "resident_mib": round(resident, 1),
    }


async def recovered(pages: list[Page], client: Client, console: Console) -> tuple[float, float]:
    """Seconds from the restart after a kill -9 until the tab in front, and until every tab, one after the other,
    shows what changed in between."""
    console.end(signal.SIGKILL)
    await asyncio.sleep(1)
    body = {"status": status(2) | {"desiredWorkerReplicas": 77777}}
    await client.patch(RAY_CLUSTERS, Key("team-0", "cluster-0000"), body, subresource="status")
    began = time.perf_counter()
    console.start()
    await pages[0].shows("77777", 120)  # the one that is seen; each other when it is looked at
    first = time.perf_counter() - began
    for page in pages[1:]:
        await page.call("Page.bringToFront")
        await page.shows("77777", 120)
    return first, time.perf_counter() - began


async def measure(folder: Path, clusters: int) -> None:
    with embedded(folder / "plane", "--memory") as server:
        client = await connect(load(server.kubeconfig))
        began = time.perf_counter()
        console = Console(folder / "plane")
        link = console.start()
        async with AsyncExitStack() as stack:
            stack.callback(console.stop)
            pages = await stack.enter_async_context(browser(folder, {}, TABS))
            await fill(client, clusters)
            filled = time.perf_counter() - began
            await pages[0].open(link, "Fleet")
            base = link.partition("/login")[0]
            console.end(signal.SIGTERM)
            console.start()
            interpreter = rss_mib(console.pid)
            cold = await first_paint(pages[0], f"{base}/", "cluster-0000")
            warm = [await first_paint(pages[0], f"{base}/", "cluster-0000") for _ in range(5)]
            one = rss_mib(console.pid)
            for page in pages[1:]:
                await page.open(f"{base}/?namespace=team-0", "cluster-0000")
            await pages[0].open(f"{base}/?namespace=team-0", "cluster-0000")
            await pages[0].call("Page.bringToFront")
            busy, started = cpu_seconds(console.pid), time.perf_counter()
            delays = sorted(await changes(client, pages[0], CHANGES, clusters))
            share = (cpu_seconds(console.pid) - busy) / (time.perf_counter() - started)
            held, own = rss_mib(console.pid), own_mib(console.pid)
            states = [await page.run("document.visibilityState") for page in pages]
            at_once = await streamed(client, pages[0], base, console.pid, clusters)
            await pages[0].open(f"{base}/?namespace=team-0", "cluster-0000")
            back = await recovered(pages, client, console)
        await client.close()
    tell(
        clusters=clusters,
        pods=4 * clusters,
        tabs={"visible": states.count("visible"), "hidden": states.count("hidden")},
        streams_at_once={"count": TABS, **at_once},
        seconds_to_fill=round(filled, 1),
        first_paint_ms={"cold": round(cold), "warm_median": round(statistics.median(warm))},
        change_to_pixel_ms={
            "median": round(statistics.median(delays)),
            "p95": round(delays[int(0.95 * (len(delays) - 1))]),
            "max": round(delays[-1]),
            "missing": CHANGES - len(delays),
        },
        rss_mib={"started": round(interpreter, 1), "one_tab": round(one, 1), "all_tabs": round(held, 1)},
        more_than_the_operator_alone_mib={"resident": round(held, 1), "of_its_own": round(own, 1)},
        cpu_share_while_changing=round(share, 2),
        seconds_to_recover={"front": round(back[0], 1), "every_tab_in_turn": round(back[1], 1)},
    )  # fmt: skip


def main() -> None:
    clusters = int(sys.argv[1]) if len(sys.argv) > 1 else CLUSTERS
    if not CHROMIUM:
        tell(skipped="Chromium is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        asyncio.run(measure(Path(folder), clusters))


if __name__ == "__main__":
    main()
