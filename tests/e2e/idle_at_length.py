"""Real Ray, used in every way, is never suspended; unused, it is. `make idle` runs this and prints the figures.

Several clusters of one plane are used side by side, with a limit of ten seconds. Every change of a RayCluster is
watched, so that no suspension is missed. After each use the cluster must be found idle again, and after every
third one it must sleep: a cluster that is never suspended at all would prove nothing. MANTA_IDLE_RUNS=n makes it n runs,
MANTA_IDLE_USES=a,b chooses uses.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from typing import Any

import pytest

from e2e.conftest import Machine
from e2e.idle_uses import END, RUN, USES, Use
from e2e.objects import cluster
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.client.watch import watch_objects
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.connect import connect

pytestmark = pytest.mark.embedded_only(reason="it stops processes in the head's container")

CHOSEN = os.environ.get("MANTA_IDLE_USES", ",".join(USES)).split(",")
RUNS = int(os.environ.get("MANTA_IDLE_RUNS", str(4 * len(CHOSEN))))
SIDE_BY_SIDE = 3
SLEEPS_EVERY = 3
LIMIT = 10
WATCHED = 3.0 * LIMIT
AFTER = "manta.ray.io/idle-suspend-after"
WARNING = "manta.ray.io/idle-suspend-warning"
PATIENCE = 600.0
"""Seconds. The first start makes the environment of the image, and the machine may be busy."""
NEVER = "0"


@dataclass
class Lane:
    """One cluster, and all that was seen of it."""

    machine: Machine
    client: Client
    name: str
    seen: dict[str, Any] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    conditions: Counter[str] = field(default_factory=Counter)
    suspensions: int = 0

    @property
    def key(self) -> Key:
        return Key("default", self.name)

    async def follow(self) -> None:
        async for _, document in watch_objects(self.client, RAY_CLUSTERS, self.key):
            begins = document["spec"].get("suspend") and not self.seen.get("spec", {}).get(
                "suspend"
            )
            self.suspensions += bool(begins)
            self.seen = document
            self.conditions[self.idle] += 1
            self.changed.set()

    @property
    def idle(self) -> str:
        found = self.seen.get("status", {}).get("conditions", [])
        one = next((one for one in found if one["type"] == "Idle"), {})
        return f"{one.get('status')} {one.get('reason')}"

    @property
    def state(self) -> str:
        return str(self.seen.get("status", {}).get("state"))

    async def until(self, what: str, check: Callable[[], bool], seconds: float = PATIENCE) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not check():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            said = f"{self.name}: not within {seconds:.0f} s: {what} ({self.state}, {self.idle})"
            raise AssertionError(f"{said}\n{self.machine.logs()}") from None

    async def limit(self, after: str) -> None:
        marks = {AFTER: after, WARNING: "2s"}
        await self.client.patch(RAY_CLUSTERS, self.key, {"metadata": {"annotations": marks}})

    async def resume(self) -> None:
        await self.client.patch(RAY_CLUSTERS, self.key, {"spec": {"suspend": False}})
        await self.until("it is resumed", lambda: self.state == "ready")

    async def restart(self) -> None:
        """Ray anew, without what a run that failed left behind."""
        await self.limit(NEVER)
        await self.client.patch(RAY_CLUSTERS, self.key, {"spec": {"suspend": True}})
        await self.until("it sleeps", lambda: self.state == "suspended")
        await self.resume()

    async def start(self, *command: str) -> asyncio.subprocess.Process:
        """A command in the head."""
        head = self.seen["status"]["head"]["podName"]
        return await asyncio.create_subprocess_exec(
            *self.machine.command("exec", head, "--", *command),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
        )

    async def execute(self, *command: str) -> None:
        process = await self.start(*command)
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()


@asynccontextmanager
async def begun(lane: Lane, use: Use, run: str) -> AsyncIterator[None]:
    """While this lasts the cluster is used."""
    await lane.execute("rm", "-f", END)
    script = use.begin.replace(RUN, run)
    process = await lane.start("python", "-c", script) if use.in_background else None
    try:
        if process is None:
            await lane.execute("python", "-c", script)
        else:
            assert process.stdout is not None
            line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
            assert "begun" in line, line + (await process.stdout.read()).decode()
        yield
    finally:
        await lane.execute("touch", END)
        if use.end:
            await lane.execute("python", "-c", use.end.replace(RUN, run))
        if process is not None:
            await asyncio.wait_for(process.communicate(), PATIENCE)


@dataclass(frozen=True)
class Result:
    use: str
    wrong: str = ""
    """Why the cluster was suspended, or not found to be used."""
    void: str = ""
    """Why the use could not be tried: Ray itself fails on a machine that is too busy. It is tried once more."""
    found_idle_after: float = 0.0
    slept: bool = False


async def one_run(lane: Lane, name: str, run: int, *, sleeps: bool) -> Result:
    use, before = USES[name], lane.suspensions
    async with begun(lane, use, str(run)):
        lane.conditions.clear()
        await lane.limit(f"{LIMIT}s")
        await asyncio.sleep(WATCHED)
        seen, suspended = set(lane.conditions), lane.suspensions > before
        await lane.limit(NEVER)
    wrong = f"suspended; {sorted(seen)}" if suspended else ""
    if not wrong and not seen & use.expected:
        wrong = f"not found to be used: {sorted(seen)}"
    if suspended:
        with suppress(AssertionError):  # what was wrong must not become a run that is void
            await lane.until("it sleeps", lambda: lane.state == "suspended")
            await lane.resume()
        return Result(name, wrong)
    began = time.monotonic()
    await lane.limit(f"{LIMIT}s")
    await lane.until("it is idle again", lambda: lane.idle == "True NotInUse")
    idle = round(time.monotonic() - began, 1)
    if sleeps:
        await lane.until("it sleeps", lambda: lane.state == "suspended")
    await lane.limit(NEVER)
    if sleeps or lane.suspensions > before:
        await lane.until("it sleeps", lambda: lane.state == "suspended")
        await lane.resume()
    return Result(name, wrong, found_idle_after=idle, slept=sleeps)


async def use_one_cluster(lane: Lane, stories: deque[tuple[int, str]]) -> list[Result]:
    results: list[Result] = []
    following = asyncio.create_task(lane.follow())
    try:
        await lane.until("it is ready", lambda: lane.state == "ready")
        for own in count(1):
            if not stories:
                break
            run, name = stories.popleft()
            try:
                result = await one_run(lane, name, run, sleeps=own % SLEEPS_EVERY == 0)
            except (AssertionError, TimeoutError) as error:  # the others go on
                result = Result(name, void=f"{error!s}"[-6000:])
                if run <= RUNS:
                    stories.append((run + RUNS, name))
                await lane.restart()
            results.append(result)
            sys.stdout.write(f"{run} {lane.name} {results[-1]}\n")
            sys.stdout.flush()
    finally:
        following.cancel()
    return results


async def use_clusters(machine: Machine) -> list[Result]:
    client = await connect(load(machine.directory / "kubeconfig"))
    stories = deque(enumerate(islice(cycle(CHOSEN), RUNS), start=1))
    try:
        async with asyncio.TaskGroup() as group:
            lanes = [Lane(machine, client, f"used-{number}") for number in range(SIDE_BY_SIDE)]
            work = [group.create_task(use_one_cluster(lane, stories)) for lane in lanes]
    finally:
        await client.close()
    return [result for one in work for result in one.result()]


@pytest.mark.timeout(7200)
def test_a_cluster_in_use_is_never_suspended_and_an_unused_one_is(
    machine: Machine, record_property: Any
) -> None:
    limits = {AFTER: NEVER, WARNING: "2s"}
    names = [f"used-{number}" for number in range(SIDE_BY_SIDE)]
    machine.apply(*(cluster(name, workers=0, annotations=limits) for name in names))
    results = asyncio.run(use_clusters(machine))
    tried = [one for one in results if not one.void]
    record_property("runs", len(tried))
    record_property("uses", dict(Counter(one.use for one in tried)))
    record_property("void", [f"{one.use}: {one.void[-200:]}" for one in results if one.void])
    record_property("wrong", [f"{one.use}: {one.wrong}" for one in results if one.wrong])
    record_property("slept", sum(one.slept for one in results))
    record_property("limit_seconds", LIMIT)
    record_property("watched_seconds", WATCHED)
    record_property("slowest_to_be_found_idle", max(one.found_idle_after for one in results))
    assert [one for one in results if one.wrong] == []
    assert len(tried) == RUNS
