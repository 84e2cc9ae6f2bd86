"""History on real Ray: what is left of a RayJob whose Pods were killed and whose objects are gone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import MANTA, Machine
from e2e.killed_job import COUNTED, TASKS, Marks, kill_pods
from e2e.test_rayjob import ended, job

pytestmark = pytest.mark.embedded_only(reason="the node agent of `manta up` keeps the sessions")


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


def all_tasks(machine: Machine, target: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    while True:
        page = json.loads(history(machine, "tasks", target, "--limit", "10000", "--offset", str(len(found)), "-o", "json"))  # fmt: skip
        found |= {one["task_id"]: one for one in page}
        if len(page) < 10_000:
            return found


BOOM = """
import ray
ray.init()

@ray.remote(max_retries=0)
def halve(number):
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2

ray.get([halve.remote(number) for number in (2, 4, 5)])
"""


def test_the_message_of_a_failed_job_names_its_first_failed_task(keeping: Machine) -> None:
    keeping.apply(job("boom", "HTTPMode", f"python -c {shlex.quote(BOOM)}"))
    status = ended(keeping, "boom")
    assert status["jobStatus"] == "FAILED"
    assert "halve" in status["message"]
    assert "ValueError: 5 is odd" in status["message"]
    assert "manta history errors rayjob/boom" in status["message"]
    keeping.manta("delete", "rayjob", "boom")
    keeping.until("the history", lambda: "boom" in history(keeping, "list"))
    assert "ValueError: 5 is odd" in history(keeping, "errors", "rayjob/boom")


def test_tasks_errors_and_logs_survive_kill_9_and_the_deletion_of_everything(
    keeping: Machine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    marks = Marks.made(tmp_path)
    keeping.apply(marks.rayjob())
    keeping.until("3,000 tasks", marks.counted, 400)
    time.sleep(3)
    killed = kill_pods(keeping)
    keeping.manta("delete", "rayjob", "train")
    keeping.until("the Pods to go", lambda: not keeping.list("pods"))
    keeping.until("the history", lambda: "train" in history(keeping, "list"))
    keeping.manta("down")
    keeping.manta("up", "--cpus", "8", "--history")

    # A head that was killed may have started again, with a session of its own, before it was deleted.
    sessions = json.loads(history(keeping, "list", "rayjob/train", "-o", "json"))
    target = f"rayjob/train/{min(one['session'] for one in sessions)}"
    log = history(keeping, "logs", target)
    losses = marks.losses(killed, all_tasks(keeping, target), log)
    record_property("manta up --history", losses)
    assert losses["tasks"] > TASKS
    assert losses["nodes"] == 2
    shows = history(keeping, "show", target)
    assert losses["tasks_lost_before_the_count"] == 0, f"{losses}\n{sessions}\n{shows}"
    assert "still here" in log

    [failed] = json.loads(history(keeping, "errors", target, "-o", "json"))
    assert "ValueError: number seven" in failed["error_message"]
    assert failed["name"] == "work"
    assert COUNTED in log
    shown = keeping.manta("logs", "job/train")
    assert shown.stdout == log
    assert "this is from its history" in shown.stderr
    summary = json.loads(history(keeping, "show", target, "-o", "json"))
    assert summary["ray_version"] == "2.60.0"
    assert summary["actors"] >= 1
