"""Load on a real Ray cluster while its workers are replaced, and what is seen meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.conftest import MANTA, Machine
from e2e.objects import cluster, container

LOAD = """
import os, sys, time, ray
ray.init(logging_level="error", namespace="rolling")

@ray.remote(num_cpus=0.2)
def work(number):
    time.sleep(0.5)
    return number

@ray.remote(num_cpus=0.1)
def blob(number):
    return bytes([number % 251]) * 4_000_000

@ray.remote(num_cpus=0.1)
def first(data):
    return data[0]

@ray.remote(num_cpus=0.1, max_restarts=-1, max_task_retries=-1)
class Echo:
    def say(self, number):
        return number

actor, kept, rounds = Echo.remote(), [], 0
print("begun", flush=True)
while not os.path.exists(sys.argv[1]):
    rounds += 1
    assert ray.get([work.remote(n) for n in range(4)]) == [0, 1, 2, 3]
    kept = [*kept, (rounds, blob.remote(rounds))][-8:]
    for number, data in kept:
        assert ray.get(first.remote(data)) == number % 251
    assert ray.get(actor.say.remote(rounds)) == rounds
print("rounds", rounds, flush=True)
"""
"""Tasks that Ray retries, an actor that it restarts, and objects that it computes again if their node is gone."""


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
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stop.wait(0.5):
            done = self.machine.manta(
                *("get", "pods", "-o", "json", "-l", f"ray.io/cluster={self.name}"), check=False
            )
            if done.returncode:
                continue
            pods = json.loads(done.stdout)["items"]
            workers = [
                one for one in pods if one["metadata"]["labels"]["ray.io/node-type"] == "worker"
            ]
            self.fewest = min(self.fewest, sum(map(is_ready, workers)))
            self.most = max(self.most, len(workers))
            self.heads = max(self.heads, len(pods) - len(workers))


@contextmanager
def watched(machine: Machine, name: str) -> Iterator[Watched]:
    seen = Watched(machine, name)
    thread = threading.Thread(target=seen.run)
    thread.start()
    try:
        yield seen
    finally:
        seen._stop.set()
        thread.join()


@contextmanager
def loaded(machine: Machine, name: str) -> Iterator[None]:
    """Runs the load until the end of the block. Fails if anything of it failed."""
    [head] = machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=head")
    pod, stop = head["metadata"]["name"], f"/tmp/stop-{name}"
    command = machine.command("exec", "-c", "ray-head", pod, "--", "python", "-c", LOAD, stop)
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as load:
        assert load.stdout is not None
        lines = [load.stdout.readline()]
        while lines[-1] and lines[-1] != "begun\n":
            lines.append(load.stdout.readline())
        assert lines[-1] == "begun\n", "".join(lines)
        try:
            yield
        finally:
            machine.exec(pod, "touch", stop, container="ray-head")
        said = load.stdout.read()
        assert "rounds" in said, said
    assert load.returncode == 0, said


def follow(machine: Machine, name: str, seconds: int = 420) -> subprocess.CompletedProcess[str]:
    """Follow a rolling update to its end: 0 when it is complete."""
    verb, *where = machine.command("rollout")[len(MANTA) :]
    command = [*MANTA, verb, "status", *where, name, "--timeout", str(seconds)]
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
