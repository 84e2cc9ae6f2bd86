"""A worker that has to go finishes what it is at, with real Ray."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from e2e.conftest import Machine
from e2e.objects import cluster

LONG = (
    "import ray, time; ray.init(logging_level='error');"
    "f = ray.remote(num_cpus=1, max_retries=0)(lambda: time.sleep(20) or 7);"
    "print('begun', flush=True); print('answer', ray.get(f.remote()))"
)


def test_c96_a_task_is_finished_before_its_worker_leaves(machine: Machine) -> None:
    name = "orderly"
    wanted: dict[str, Any] = cluster(name, workers=1, head={"rayStartParams": {"num-cpus": "0"}})
    wanted["metadata"]["annotations"] = {"manta.ray.io/drain-seconds": "60"}
    machine.apply(wanted)
    machine.cluster_ready(name)
    [head] = machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=head")
    [worker] = machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=worker")
    command = machine.command("exec", head["metadata"]["name"], "--", "python", "-c", LONG)
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as task:
        assert task.stdout is not None
        assert task.stdout.readline() == "begun\n"
        machine.until("the task on its worker", lambda: _runs_a_task(machine, head))
        machine.manta("delete", "pod", worker["metadata"]["name"], "--no-wait", check=False)
        assert "answer 7" in task.stdout.read()
    uid = worker["metadata"]["uid"]
    machine.until(
        "the worker to leave",
        lambda: all(
            one["metadata"]["uid"] != uid
            for one in machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=worker")
        ),
    )
    machine.manta("delete", "raycluster", name)


def _runs_a_task(machine: Machine, head: dict[str, Any]) -> bool:
    script = (
        "import ray; ray.init(logging_level='error');"
        "print('free', ray.available_resources().get('CPU', 0))"
    )
    name = head["metadata"]["name"]
    return "free 0" in machine.exec(name, "python", "-c", script)
