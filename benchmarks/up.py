"""`manta up` until its API server is healthy, and until its node takes Pods. Goal: under 2 s.

Fresh directories, and a directory that has been used before; the command is timed as a user feels it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from benchmarks.operators import tell
from benchmarks.planes import client_of, manta, plane_directory
from manta.api.resources import NODES

ROUNDS = 3


def main() -> None:
    fresh, again, nodes = [], [], []
    for _ in range(ROUNDS):
        with plane_directory() as directory:
            began = time.perf_counter()
            fresh.append(timed_up(directory))
            asyncio.run(until_a_node_is_ready(directory))
            nodes.append(time.perf_counter() - began)
            manta(directory, "down")
            again.append(timed_up(directory))
    tell(
        fresh_seconds=round(statistics.median(fresh), 2),
        again_seconds=round(statistics.median(again), 2),
        node_ready_seconds=round(statistics.median(nodes), 2),
        goal="fresh_seconds under 2",
    )


def timed_up(directory: Path) -> float:
    """The whole command; it ends when /readyz of the API server would say ok."""
    began = time.perf_counter()
    manta(directory, "up")
    return time.perf_counter() - began


async def until_a_node_is_ready(directory: Path) -> None:
    async with client_of(directory) as client:
        while True:
            for node in (await client.list(NODES, into=dict)).items:
                for condition in node.get("status", {}).get("conditions", ()):
                    if condition["type"] == "Ready" and condition["status"] == "True":
                        return
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    main()
