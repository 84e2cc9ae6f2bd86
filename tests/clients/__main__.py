"""Unmodified clients follow the embedded server for minutes: `python -m tests.clients --minutes 10`.

The official Python client, kubernetes_asyncio, kubectl and, where `make test-kubernetes` has built it,
an informer of client-go (typed and untyped) each watch the same ConfigMaps. A writer creates, changes
and deletes, in bursts and with quiet spells of up to a minute. Whoever misses an event, sees one twice
or out of order, or hangs is named; then the exit code is 1. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.cluster_api import api_over_tls, running_plane
from support.contract import Api, config_map

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manta" / "kubernetes"
KINDS = ("ADDED", "MODIFIED", "DELETED")
TIMEOUT = 60.0
"""Seconds after which a client that has not printed the last event hangs."""
LONGEST_SPELL = 60.0


@dataclass
class Follower:
    """One client, and what it has printed since it was ready."""

    name: str
    prefix: str = ""
    events: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        words = line.removeprefix(self.prefix).split()
        if line.startswith(self.prefix) and words and words[0] in KINDS:
            self.events.append(f"{words[0]} {words[1].removeprefix('configmap/')}")

    def fault(self, written: list[str]) -> str | None:
        """The first difference with what was written."""
        printed = [event for event in self.events if not event.endswith(" kube-root-ca.crt")]
        for number, (one, other) in enumerate(zip(printed, written, strict=False)):
            if one != other:
                return f"event {number} is {one!r}, written was {other!r}"
        if len(printed) != len(written):
            return f"{len(printed)} events of {len(written)}"
        return None


async def write(api: Api, seconds: float, random: random.Random) -> list[str]:
    """A burst, then a quiet spell, until the time is over. Answers with the events to be seen."""
    where, made = api.path("configmaps"), 0
    written: list[str] = []
    alive: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(random.randint(1, 40)):
            if alive and random.random() < 0.3:
                name = alive.pop(random.randrange(len(alive)))
                await api.delete(f"{where}/{name}")
                written.append(f"DELETED {name}")
            elif alive and random.random() < 0.5:
                name = random.choice(alive)
                await api.patch(f"{where}/{name}", {"data": {"n": str(len(written))}})
                written.append(f"MODIFIED {name}")
            else:
                name, made = f"c{made}", made + 1
                await api.made(where, config_map(name))
                alive.append(name)
                written.append(f"ADDED {name}")
        await asyncio.sleep(min(random.uniform(0, LONGEST_SPELL), max(end - time.monotonic(), 0)))
    return written


def commands(kubeconfig: Path, namespace: str) -> dict[str, list[str]]:
    place = [str(kubeconfig), namespace]
    watching = ["get", "configmaps", "--watch-only", "--output-watch-events", "--no-headers"]
    found = {
        "kubernetes": [sys.executable, str(HERE / "official.py"), *place],
        "kubernetes_asyncio": [sys.executable, str(HERE / "asynchronous.py"), *place],
        "kubectl": ["kubectl", "--kubeconfig", str(kubeconfig), "-n", namespace, *watching],
    }
    for program in sorted(CACHE.glob("*/bin/informer"))[-1:]:
        found["client-go"] = [str(program), *place]
    return found


async def listen(process: Process, followers: list[Follower], ready: asyncio.Event) -> None:
    assert process.stdout is not None
    synced = 0
    while line := (await process.stdout.readline()).decode().strip():
        synced += line == "READY" or "SYNCED" in line
        if synced >= len(followers):
            ready.set()
        for follower in followers:
            follower.hear(line)


async def follow(directory: Path, minutes: float, seed: int) -> dict[str, object]:
    with running_plane(directory) as kubeconfig:
        async with api_over_tls(kubeconfig) as api, asyncio.TaskGroup() as listening:
            processes: list[Process] = []
            everybody: list[Follower] = []
            for name, command in commands(kubeconfig, api.namespace).items():
                mine = [Follower(name)]
                if name == "client-go":
                    mine.append(Follower("client-go, untyped", "dynamic "))
                process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
                ready = asyncio.Event()
                listening.create_task(listen(process, mine, ready))
                async with asyncio.timeout(TIMEOUT):
                    await (asyncio.sleep(3) if name == "kubectl" else ready.wait())
                processes.append(process)
                everybody += mine
            written = await write(api, 60 * minutes, random.Random(seed))
            faults = await settle(everybody, written)
            for process in processes:
                process.kill()
                await process.wait()
    return {
        "minutes": minutes,
        "events": len(written),
        "clients": [one.name for one in everybody],
        "faults": faults,
    }


async def settle(everybody: list[Follower], written: list[str]) -> dict[str, str]:
    """Until nobody has a fault any more; who still has one when patience ends, and which."""
    end = time.monotonic() + TIMEOUT
    while True:
        faults = {one.name: why for one in everybody if (why := one.fault(written))}
        if not faults or time.monotonic() > end:
            return faults
        await asyncio.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = asyncio.run(follow(Path(directory), args.minutes, args.seed))
    sys.stdout.write(json.dumps(result) + "\n")
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
