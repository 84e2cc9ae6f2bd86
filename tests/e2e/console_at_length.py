"""The console with real Ray in Chromium: a cluster with demands, a job that fails, a service that is upgraded under load.

Not collected by `make test`; `make console` runs it (about five minutes). MANTA_SCREENSHOTS names a directory that
keeps pictures of what was seen.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from e2e.conftest import Machine, why_not
from e2e.objects import IMAGE, cluster
from e2e.serving import Life, Served, Traffic
from support.axe import violations
from support.browser import CHROMIUM, Page, browser

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(900),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium"),
]
DEMAND = (
    "import ray, time; ray.init(logging_level='error');"
    "f = ray.remote(num_cpus=3)(lambda: time.sleep(600));"
    "ray.get([f.remote() for _ in range(5)])"
)
FAILS = (
    "import ray; ray.init()\n"
    "@ray.remote(max_retries=0)\n"
    "def load_shard(): raise ValueError('shard 7 is missing')\n"
    "ray.get(load_shard.remote())"
)
SECONDS = 300.0


@contextmanager
def plane(directory: Path) -> Iterator[tuple[Machine, str]]:
    """`manta up`, and the address of the console that it prints."""
    machine = Machine(directory)
    said = machine.manta("up", "--cpus", "8").stderr
    [link] = [word for word in said.split() if "/login?token=" in word]
    try:
        yield machine, link
    finally:
        machine.manta("down", "--purge", check=False)


@asynccontextmanager
async def visitor(directory: Path, link: str) -> AsyncIterator[tuple[Page, str]]:
    async with browser(directory, {}) as [page]:
        await page.open(link, "Fleet", SECONDS)
        await page.resize(1280)
        yield page, link.partition("/login")[0]


async def kept(page: Page, name: str) -> None:
    """A page that is clean: no error on the console of the browser, none that axe-core finds."""
    assert await violations(page) == []
    assert page.failures == []
    if folder := os.environ.get("MANTA_SCREENSHOTS"):
        await page.screenshot(Path(folder) / f"{name}.png")


async def test_what_the_console_shows_of_real_ray(tmp_path: Path) -> None:
    with plane(tmp_path / "plane") as (machine, link):
        async with visitor(tmp_path, link) as (page, base):
            await demands(machine, page, base)
            await failing_job(machine, page, base)
            await upgrade(machine, page, base)


async def demands(machine: Machine, page: Page, base: str) -> None:
    """Tasks that no node can take are the demands of the autoscaler."""
    options = {
        "version": "v2",
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
    }
    wanted = cluster("busy", workers=0, enableInTreeAutoscaling=True, autoscalerOptions=options)
    await asyncio.to_thread(machine.apply, wanted)
    await page.open(f"{base}/rayclusters/default/busy", "busy")
    await page.shows("1 of 1", SECONDS)  # the head is ready, and the page says so by itself
    [head] = await asyncio.to_thread(machine.list, "pods", "ray.io/node-type=head")
    words = machine.command("exec", "-c", "ray-head", head["metadata"]["name"], "--", "python", "-c", DEMAND)  # fmt: skip
    asking = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await page.shows("{'CPU': 3.0}", SECONDS)
        await kept(page, "real-cluster")
    finally:
        asking.terminate()
        asking.wait()
    await leave_and_delete(machine, page, base, "raycluster", "busy")


async def failing_job(machine: Machine, page: Page, base: str) -> None:
    """The error of the failed task, and the log, are on the page of the job."""
    spec = {
        "entrypoint": f'python -c "{FAILS}"',
        "submissionMode": "HTTPMode",
        "rayClusterSpec": cluster("x", workers=0)["spec"],
    }
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": spec}
    await asyncio.to_thread(machine.apply, job)
    await page.open(f"{base}/rayjobs/default/train", "train")
    await page.shows("Why it failed", SECONDS)
    await page.shows("ValueError: shard 7 is missing", SECONDS)
    await page.shows("TASK_EXECUTION_EXCEPTION", SECONDS)  # of the list of failed tasks
    await kept(page, "real-job")
    await page.open(f"{base}/rayjobs/default/train/log", "shard 7 is missing", SECONDS)
    await kept(page, "real-log")
    await leave_and_delete(machine, page, base, "rayjob", "train")


async def leave_and_delete(machine: Machine, page: Page, base: str, kind: str, name: str) -> None:
    """The page of an object that is deleted loads itself again: a 404, which a browser counts as an error."""
    await page.open(base, "Fleet")
    await asyncio.to_thread(machine.manta, "delete", kind, name)


async def upgrade(machine: Machine, page: Page, base: str) -> None:
    """Started by the button, seen until its end; nobody who calls the service notices it."""
    served = Served()
    life, traffic = Life(machine, served), Traffic(machine, served)
    await asyncio.to_thread(life.start)
    await asyncio.to_thread(traffic.start)
    try:
        await page.open(f"{base}/rayservices/default/{served.name}", "is up to date", SECONDS)
        await page.click("Upgrade")
        await page.fill(
            "[name=image]", f"{IMAGE}-gpu"
        )  # the same Ray; another image for Kubernetes
        await page.click("Show what would happen")
        await kept(page, "real-upgrade-plan")
        await page.click("Upgrade")
        await page.shows("is being upgraded", SECONDS)
        await kept(page, "real-service-upgrading")
        await page.shows("is up to date", SECONDS)
        await kept(page, "real-service")
        seen = await asyncio.to_thread(traffic.stop)
    finally:
        await asyncio.to_thread(traffic.kill)
    assert {who: one["failures"] for who, one in seen.items()} == {who: [] for who in seen}
    assert all(one["requests"] > 10 for one in seen.values())
