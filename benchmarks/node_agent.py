"""What the node agent costs with 20 idle Pods, beside a plane without any.

The agent lives in the plane's process, so the difference between two planes is measured: one with the
agent and 20 Pods of one sleeping container, one with scripted nodes and the same 20 Pods, which costs
what the API server, the controllers and their caches cost. Helpers are counted by the memory that they
do not share (PSS). Goals: under 2 % of a core, under 60 MiB.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from benchmarks.memory import cpu_seconds, rss_mib
from benchmarks.operators import tell
from benchmarks.planes import client_of, manta, plane_directory
from manta.api.resources import PODS
from manta.cli.plane.process import read_record
from manta.kube.client import Client
from manta.localplane.node.cleanup import marked_processes

COUNT = 20
SETTLE, WATCH = 8.0, 30.0


def main() -> None:
    with_agent = measure("--nodes", "1")
    without = measure("--nodes", "0", "--fake-nodes", "1")
    tell(
        pods=COUNT,
        agent_cpu_percent=round(with_agent["cpu"] - without["cpu"], 2),
        agent_rss_mib=round(with_agent["rss"] - without["rss"], 1),
        helpers_pss_mib=round(with_agent["helpers"], 1),
        helpers_cpu_percent=round(with_agent["helpers_cpu"], 2),
        plane_with_agent={name: round(value, 2) for name, value in with_agent.items()},
        plane_with_scripted_node={name: round(value, 2) for name, value in without.items()},
        goal="agent_cpu_percent + helpers_cpu_percent under 2, agent_rss_mib under 60",
    )


def measure(*flags: str) -> dict[str, float]:
    with plane_directory() as directory:
        manta(directory, "up", *flags)
        asyncio.run(create_pods(directory))
        time.sleep(SETTLE)
        return watch(directory)


async def create_pods(directory: Path) -> None:
    async with client_of(directory) as client:
        for number in range(COUNT):
            await client.create(PODS, "default", a_pod(f"idle-{number}"))
        while await count_running(client) < COUNT:
            await asyncio.sleep(0.2)


async def count_running(client: Client) -> int:
    pods = (await client.list(PODS, "default", into=dict)).items
    return sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)


def a_pod(name: str) -> dict[str, Any]:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 30}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "100000"],
        "livenessProbe": probe,
    }
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def watch(directory: Path) -> dict[str, float]:
    record = read_record(directory)
    assert record is not None
    helpers = marked_processes(directory / "node")
    began = time.perf_counter()
    before = cpu_seconds(record.pid), sum(map(cpu_seconds, helpers))
    time.sleep(WATCH)
    seconds = time.perf_counter() - began
    after = cpu_seconds(record.pid), sum(map(cpu_seconds, helpers))
    return {
        "cpu": 100 * (after[0] - before[0]) / seconds,
        "helpers_cpu": 100 * (after[1] - before[1]) / seconds,
        "rss": rss_mib(record.pid),
        "helpers": sum(map(pss_mib, helpers)),
    }


def pss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss")


if __name__ == "__main__":
    main()
