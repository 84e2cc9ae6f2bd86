"""A RayCluster of one head and one worker from apply to Ready, against `ray start` by hand.

Both in turn, in the same run, with the same Ray. By hand means what Ray's own manual says: `ray start
--head`, and when it returns `ray start --address`. Goal: at most 1.3 times as long.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from benchmarks.operators import tell
from benchmarks.planes import client_of, manta, plane_directory, seconds_until
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS
from manta.kube.errors import NotFound

ROUNDS = 3
MANIFEST = Path(__file__).parents[1] / "examples" / "quickstart.yaml"
CACHE = Path.home() / ".cache" / "manta" / "images"


def main() -> None:
    document = yaml.safe_load(MANIFEST.read_text())
    applied, by_hand = [], []
    with plane_directory() as directory:
        manta(directory, "up", "--cpus", "4")
        asyncio.run(apply_once(directory, document))  # makes the environment if there is none
        for _ in range(ROUNDS):
            applied.append(asyncio.run(apply_once(directory, document)))
            by_hand.append(start_by_hand(document))
    ours, theirs = statistics.median(applied), statistics.median(by_hand)
    tell(
        apply_to_ready_seconds=round(ours, 2),
        by_hand_seconds=round(theirs, 2),
        ratio=round(ours / theirs, 2),
        all_applied=[round(one, 2) for one in applied],
        all_by_hand=[round(one, 2) for one in by_hand],
        goal="ratio at most 1.3",
    )


async def apply_once(directory: Path, document: dict[str, Any]) -> float:
    key = Key("default", document["metadata"]["name"])
    async with client_of(directory) as client:
        await client.create(RAY_CLUSTERS, "default", document)
        seconds = await seconds_until(
            client, RAY_CLUSTERS, key, lambda one: one.get("status", {}).get("state") == "ready"
        )
        await tell_of_pods(client)
        await client.delete(RAY_CLUSTERS, key)
        while pods := (await client.list(PODS, "default", into=dict)).items:
            for (
                pod
            ) in pods:  # at once: Ray would drain for half a minute, which nobody measures here
                with suppress(NotFound):
                    gone = Key("default", pod["metadata"]["name"])
                    await client.delete(PODS, gone, grace_seconds=0)
            await asyncio.sleep(0.2)
    return seconds


async def tell_of_pods(client: Any) -> None:
    """On stderr: what each Pod waited for, and how long."""
    for pod in (await client.list(PODS, "default", into=dict)).items:
        status = pod["status"]
        moments = {one["type"]: one["lastTransitionTime"] for one in status["conditions"]}
        inits = [
            (one["name"], one["state"].get("terminated", {}))
            for one in status.get("initContainerStatuses", ())
        ]
        print(pod["metadata"]["name"], status["startTime"], moments, inits, file=sys.stderr)


def start_by_hand(document: dict[str, Any]) -> float:
    """The same resources as in the manifest; ports apart, as both share the machine's network."""
    ray = str(environment(document["spec"]["rayVersion"]) / "bin" / "ray")
    with tempfile.TemporaryDirectory(prefix="ray-") as place:
        head = ["--head", "--port=6379", "--num-cpus=1", f"--temp-dir={place}", *ports(0)]
        began = time.perf_counter()
        run(ray, "start", *head)
        run(ray, "start", "--address=127.0.0.1:6379", "--num-cpus=1", *ports(1))
        seconds = time.perf_counter() - began
        run(ray, "stop", "--force")
    return seconds


def ports(number: int) -> tuple[str, ...]:
    return (
        "--disable-usage-stats",
        f"--dashboard-agent-listen-port={52365 + number}",
        f"--metrics-export-port={8080 + number}",
    )


def environment(version: str) -> Path:
    """Of the image: the plane has made it."""
    found = sorted(CACHE.glob(f"*ray-{version}*")) or sorted(CACHE.glob(f"*{version}*"))
    return next(one for one in found if (one / "bin" / "ray").exists())


def run(*command: str) -> None:
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    main()
