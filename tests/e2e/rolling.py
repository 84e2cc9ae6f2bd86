"""Load on a real Ray cluster while its workers are replaced, and what is seen meanwhile."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.conftest import MANTA, Machine
from e2e.mirror import WatchedMachine
from e2e.objects import cluster, container

LOAD = """
import json, os, sys, threading, time, ray
ray.init(logging_level="error", namespace="rolling")
end, bursts = sys.argv[1], len(sys.argv) > 2
counts = dict(tasks=0, long_tasks=0, begun_again=0, calls=0, restarts=0, objects=0, bursts=0)
failures = []

@ray.remote(num_cpus=0.05)
def work(number, seconds):
    time.sleep(seconds)
    return number

@ray.remote(num_cpus=0.05)
def blob(number):
    return bytes([number % 251]) * 8_000_000

@ray.remote(num_cpus=0.05)
def told(*blobs):
    return [(len(one), one[0]) for one in blobs]

@ray.remote(num_cpus=0.1, max_restarts=-1, max_task_retries=-1)
class Echo:
    def say(self, number):
        return number, ray.get_runtime_context().was_current_actor_reconstructed, os.getpid()

def tasks(turn):
    wave = [work.remote(n, 0.2 + n / 2) for n in range(6)]
    assert ray.get(wave, timeout=300) == list(range(6))
    counts["tasks"] += 6

def long_tasks(turn):
    began = time.time()
    assert ray.get(work.remote(turn, 40), timeout=300) == turn
    counts["long_tasks"] += 1
    counts["begun_again"] += time.time() - began > 50

def objects(turn):
    kept.append((turn, blob.remote(turn)))
    del kept[:-12]
    numbers, refs = zip(*kept)
    expected = [(8_000_000, number % 251) for number in numbers]
    assert ray.get(told.remote(*refs), timeout=300) == expected
    counts["objects"] += 1
    time.sleep(1)

def calls(turn):
    for at, actor in enumerate(actors):
        number, again, pid = ray.get(actor.say.remote(turn), timeout=300)
        assert number == turn
        counts["restarts"] += again and pids.get(at) != pid
        pids[at] = pid
        counts["calls"] += 1
    time.sleep(0.3)

def burst(turn):
    wide = work.options(num_cpus=0.8)
    assert ray.get([wide.remote(n, 3) for n in range(2)], timeout=300) == [0, 1]
    counts["bursts"] += 1
    time.sleep(30)

def repeat(one):
    turn = 0
    while not os.path.exists(end):
        turn += 1
        try:
            one(turn)
        except Exception as error:
            failures.append(f"{time.strftime('%H:%M:%S')} {one.__name__} {turn}: {error!r}"[:600])
            time.sleep(1)

kept, pids, actors = [], {}, [Echo.remote() for _ in range(3)]
tasks(0)
print("begun", flush=True)
loads = [tasks, long_tasks, objects, calls] + [burst] * bursts
threads = [threading.Thread(target=repeat, args=(one,)) for one in loads]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps({**counts, "failures": failures}), flush=True)
"""
"""Tasks, also some that are longer than a worker may drain; actors that Ray restarts; objects that it computes
again if their node is gone. With a second argument also bursts that need a worker more. Every answer is checked."""


def rolling_cluster(name: str, workers: int, value: str, **spec: Any) -> dict[str, Any]:
    """A cluster whose workers have an environment variable: to change it is to roll them."""
    env = [{"name": "ROLLED", "value": value}]
    template = {"spec": {"containers": [container("ray-worker", env=env)]}}
    no_tasks = {"rayStartParams": {"num-cpus": "0"}}
    return cluster(name, workers=workers, head=no_tasks, group={"template": template}, **spec)


def workers_of(machine: Machine, name: str) -> list[dict[str, Any]]:
    return machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=worker")


def values(machine: Machine, name: str) -> set[str]:
    return {
        one["value"]
        for pod in workers_of(machine, name)
        for one in pod["spec"]["containers"][0]["env"]
        if one["name"] == "ROLLED"
    }


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    alive = "deletionTimestamp" not in pod["metadata"]
    return alive and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@dataclass
class Watched:
    """The fewest ready workers, and the most heads and workers, that were there at once."""

    machine: Machine
    name: str
    fewest: int = 1000
    most: int = 0
    heads: int = 0

    def look(self) -> None:
        pods = self.machine.list("pods", f"ray.io/cluster={self.name}")
        workers = [one for one in pods if one["metadata"]["labels"]["ray.io/node-type"] == "worker"]
        self.fewest = min(self.fewest, sum(map(is_ready, workers)))
        self.most = max(self.most, len(workers))
        self.heads = max(self.heads, len(pods) - len(workers))


@contextmanager
def watched(machine: Machine, name: str) -> Iterator[Watched]:
    """Looks after each change where the machine has a mirror, else twice a second."""
    seen = Watched(machine, name)
    if isinstance(machine, WatchedMachine):
        with machine.mirror.watched_by(seen.look):
            yield seen
        return
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.5):
            seen.look()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


@contextmanager
def loaded(
    machine: Machine, pod: str, container: str = "ray-head", *, bursts: bool = False
) -> Iterator[dict[str, Any]]:
    """Runs the load from this Pod until the end of the block. What it did is in the answer afterwards."""
    figures: dict[str, Any] = {}
    stop = f"/tmp/stop-{uuid.uuid4().hex}"
    arguments = ("-c", container, pod, "--", "python", "-c", LOAD, stop, *["bursts"] * bursts)
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    with subprocess.Popen(
        machine.command("exec", *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as load:
        assert load.stdout is not None
        lines = [load.stdout.readline()]
        while lines[-1] and lines[-1] != "begun\n":
            lines.append(load.stdout.readline())
        assert lines[-1] == "begun\n", "".join(lines)
        try:
            yield figures
        finally:
            machine.exec(pod, "touch", stop, container=container)
            said = load.stdout.read()
    ends = [line for line in said.splitlines() if line.startswith("{")]
    assert ends, said
    assert load.returncode == 0, said
    figures.update(json.loads(ends[-1]))


def head_of(machine: Machine, name: str) -> dict[str, Any]:
    found = machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=head")
    [head] = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return head


def edited(manifest: dict[str, Any], value: str, kind: str = "worker") -> dict[str, Any]:
    """The same cluster with another environment variable in the Pods of its workers, or of its head."""
    changed = copy.deepcopy(manifest)
    spec = changed["spec"]
    groups = spec["workerGroupSpecs"] if kind == "worker" else [spec["headGroupSpec"]]
    for group in groups:
        [ray] = group["template"]["spec"]["containers"]
        ray["env"] = [{"name": "ROLLED", "value": value}]
    return changed


def follow(machine: Machine, name: str, seconds: int = 420) -> subprocess.CompletedProcess[str]:
    """Follow a rolling update to its end: 0 when it is complete."""
    verb, *where = machine.command("rollout")[len(MANTA) :]
    command = [*MANTA, verb, "status", *where, name, "--timeout", str(seconds)]
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
