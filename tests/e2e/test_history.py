"""History on real Ray: what is left of a RayJob whose Pods were killed and whose objects are gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import MANTA, Machine
from e2e.test_rayjob import job, with_host_directory

pytestmark = pytest.mark.embedded_only(reason="the node agent of `manta up` keeps the sessions")
TASKS = 3000
SCRIPT = f"""
import time, ray
ray.init()

def note(kind):
    with open("/marks/tasks", "a") as file:
        file.write(f"{{time.time()}} {{ray.get_runtime_context().get_task_id()}} {{kind}}\\n")

@ray.remote(num_cpus=0.1)
def work(number):
    note("work")
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


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A plane that keeps history."""
    machine = Machine(tmp_path_factory.mktemp("h", numbered=True))
    machine.manta("up", "--cpus", "8", "--history")
    try:
        yield machine
    finally:
        machine.manta("down", "--purge", check=False)


def history(machine: Machine, action: str, *rest: str) -> str:
    command = [*MANTA, "history", action, "--dir", str(machine.directory), *rest]
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert not done.returncode, f"{done.stdout}\n{done.stderr}\n{machine.logs()}"
    return done.stdout


def kill_pods(machine: Machine) -> float:
    """kill -9 of every process of every Pod; returns when it began."""
    began = time.time()
    for record in (machine.directory / "node" / "pods").glob("*/sandbox.json"):
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    return began


def all_tasks(machine: Machine, target: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    while True:
        page = json.loads(history(machine, "tasks", target, "--limit", "10000", "--offset", str(len(found)), "-o", "json"))  # fmt: skip
        found |= {one["task_id"]: one for one in page}
        if len(page) < 10_000:
            return found


def test_tasks_errors_and_logs_survive_kill_9_and_the_deletion_of_everything(
    keeping: Machine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir(mode=0o777)
    marks.chmod(0o777)
    (marks / "job.py").write_text(SCRIPT)
    document = job("train", "HTTPMode", "python /marks/job.py")
    keeping.apply(with_host_directory(document, marks))
    keeping.until("3,000 tasks", (marks / "counted").exists, 400)
    time.sleep(3)
    killed = kill_pods(keeping)
    keeping.manta("delete", "rayjob", "train")
    keeping.until("the Pods to go", lambda: not keeping.list("pods"))
    keeping.until("the history", lambda: "train" in history(keeping, "list"))
    keeping.manta("down")
    keeping.manta("up", "--cpus", "8", "--history")

    # A head that was killed may have started again, with a session of its own, before it was deleted.
    sessions = json.loads(history(keeping, "list", "-o", "json"))
    target = f"rayjob/train/{min(one['session'] for one in sessions)}"
    tasks = all_tasks(keeping, target)
    ran = [line.split() for line in (marks / "tasks").read_text().splitlines()]
    missing = [float(at) for at, task, _ in ran if task not in tasks]
    counted = (marks / "counted").stat().st_mtime
    record_property("tasks", len(ran))
    record_property("seconds_lost", round(killed - min(missing, default=killed), 3))
    assert len(ran) > TASKS
    shows = history(keeping, "show", target)
    assert [at for at in missing if at < counted] == [], f"{sessions}\n{shows}"

    [failed] = json.loads(history(keeping, "errors", target, "-o", "json"))
    assert "ValueError: number seven" in failed["error_message"]
    assert failed["name"] == "work"
    log = history(keeping, "logs", target)
    assert f"the driver counted {TASKS - 1} and 1" in log
    last = max(
        float(line.split()[-1]) for line in log.splitlines() if line.startswith("still here")
    )
    record_property("seconds_of_log_lost", round(killed - last, 3))
    assert last > counted
    shown = keeping.manta("logs", "job/train")
    assert shown.stdout == log
    assert "this is from its history" in shown.stderr
    summary = json.loads(history(keeping, "show", target, "-o", "json"))
    assert summary["ray_version"] == "2.60.0"
    assert summary["actors"] >= 1
