"""A RayJob that notes what it does on this machine's disk until `kill -9`, and what a history has of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.conftest import Machine
from e2e.objects import cluster
from e2e.test_rayjob import job

TASKS = 3000
SCRIPT = f"""
import time, ray
ray.init()

def note(kind):
    with open("/marks/tasks", "a") as file:
        file.write(f"{{time.time()}} {{ray.get_runtime_context().get_task_id()}} {{kind}}\\n")

@ray.remote(num_cpus=0.1, scheduling_strategy="SPREAD")
def work(number):
    note(ray.get_runtime_context().get_node_id())
    if number == 7:
        raise ValueError("number seven")
    return number

done = failed = 0
for first in range(0, {TASKS}, 100):
    for reference in [work.remote(number) for number in range(first, first + 100)]:
        try:
            ray.get(reference)
            done += 1
        except ValueError:
            failed += 1
print(f"the driver counted {{done}} and {{failed}}", flush=True)
open("/marks/counted", "w").write("yes")
number = {TASKS}
while True:
    ray.get(work.remote(number))
    print(f"still here at {{time.time()}}", flush=True)
    number += 1
    time.sleep(0.05)
"""
COUNTED = f"the driver counted {TASKS - 1} and 1"


@dataclass(frozen=True)
class Marks:
    """The directory that the job writes to."""

    directory: Path

    @classmethod
    def made(cls, parent: Path) -> Marks:
        directory = parent / "marks"
        directory.mkdir()
        directory.chmod(0o777)
        (directory / "job.py").write_text(SCRIPT)
        return cls(directory)

    def rayjob(self) -> dict[str, Any]:
        """The RayJob `train`, with a head and a worker that see the directory at /marks."""
        spec = cluster("unused", workers=1)["spec"]
        document = job("train", "HTTPMode", "python /marks/job.py", rayClusterSpec=spec)
        for template in templates(document):
            path = {"path": str(self.directory)}
            template["spec"]["volumes"] = [{"name": "marks", "hostPath": path}]
            mount = {"name": "marks", "mountPath": "/marks"}
            template["spec"]["containers"][0]["volumeMounts"] = [mount]
        return document

    def counted(self) -> bool:
        return (self.directory / "counted").exists()

    def ran(self) -> list[tuple[float, str, str]]:
        """When each task ran, its id and its node. The last line may be cut off."""
        lines = (self.directory / "tasks").read_text().splitlines()
        words = [line.split() for line in lines]
        return [(float(one[0]), one[1], one[2]) for one in words if len(one) == 3]

    def losses(self, killed: float, tasks: Iterable[str], log: str) -> dict[str, float]:
        """What a history with these tasks and this log of the driver does not have."""
        known, ran = set(tasks), self.ran()
        missing = [at for at, task, _ in ran if task not in known]
        began = min(at for at, *_ in ran)
        words = [line.split() for line in log.splitlines() if line.startswith("still here")]
        last = max((float(one[-1]) for one in words), default=began)
        return {
            "tasks": len(ran),
            "nodes": len({node for *_, node in ran}),
            "tasks_lost": len(missing),
            "tasks_lost_before_the_count": sum(at < self.at_count() for at in missing),
            "seconds_of_tasks_lost": round(killed - min(missing, default=killed), 3),
            "seconds_of_log_lost": round(killed - last, 3),
        }

    def at_count(self) -> float:
        return (self.directory / "counted").stat().st_mtime


def templates(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the Pods of a RayJob: the head's first."""
    spec = document["spec"]["rayClusterSpec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return [one["template"] for one in groups]


def kill_pods(machine: Machine) -> float:
    """kill -9 of every process of every Pod; returns when it began."""
    began = time.time()
    for record in (machine.directory / "node" / "pods").glob("*/sandbox.json"):
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    return began
