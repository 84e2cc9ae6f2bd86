"""Clusters of real Ray that sleep when nobody uses them, and wake when somebody does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Machine
from e2e.objects import VERSION, cluster

pytestmark = pytest.mark.embedded_only(reason="`manta up` wakes a cluster that is used")

LIMIT = 20
AFTER = {
    "manta.ray.io/idle-suspend-after": f"{LIMIT}s",
    "manta.ray.io/idle-suspend-warning": "5s",
}


def idle_condition(machine: Machine, name: str) -> dict[str, Any]:
    found = machine.get("raycluster", name).get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == "Idle"), {})


def is_asleep(machine: Machine, name: str) -> bool:
    return machine.get("raycluster", name).get("status", {}).get("state") == "suspended"


def head_of(machine: Machine, name: str) -> str:
    return str(machine.get("raycluster", name)["status"]["head"]["podName"])


@contextmanager
def dashboard(machine: Machine, name: str) -> Iterator[str]:
    """`manta dashboard NAME`, and the address that it prints."""
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    command = machine.command("dashboard", "--no-browser", name)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found is not None, line
            yield found.group()
        finally:
            process.terminate()


def ray() -> Path:
    """The command of the image's environment, on this machine."""
    cache = Path.home() / ".cache/manta/images"
    return min(cache.glob(f"ray-default-serve-{VERSION}-*")) / "bin/ray"


def visitor(url: str) -> dict[str, Any]:
    """A Pod that asks for one page, and has patience."""
    ask = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=400).read().decode())"
    container = {"name": "visitor", "image": "python", "command": ["python3", "-c", ask]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "visitor"}, "spec": spec}


def phase(machine: Machine, pod: str) -> str:
    return str(machine.get("pod", pod).get("status", {}).get("phase"))


def test_an_idle_cluster_sleeps_and_ray_job_submit_wakes_it(machine: Machine) -> None:
    machine.apply(cluster("sleeper", workers=0, annotations=AFTER))
    machine.cluster_ready("sleeper")
    # Somebody looks at its dashboard: the page stays open while the cluster sleeps.
    with dashboard(machine, "sleeper") as address:
        machine.until("it sleeps", lambda: is_asleep(machine, "sleeper"))
        events = [one["reason"] for one in machine.list("events")]
        assert {"IdleSuspendWarning", "IdleSuspended"} <= set(events)
        assert idle_condition(machine, "sleeper")["reason"] == "IdleSuspended"
        assert not machine.list("pods", "ray.io/cluster=sleeper")
        command = [str(ray()), "job", "submit", "--address", address, "--", "echo", "awake"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr + machine.logs()
        assert "awake" in done.stdout.splitlines()
    assert machine.get("raycluster", "sleeper")["spec"]["suspend"] is False
    reasons = [one["reason"] for one in machine.list("events")]
    assert "IdleResumed" in reasons
    machine.until("it sleeps again", lambda: is_asleep(machine, "sleeper"))
    # By its name from another Pod, although the head Service is headless.
    assert machine.get("service", "sleeper-head-svc")["spec"]["clusterIP"] == "None"
    machine.apply(visitor("http://sleeper-head-svc:8265/api/version"))
    machine.until("the visitor is answered", lambda: phase(machine, "visitor") == "Succeeded", 400)
    assert "ray_version" in machine.manta("logs", "visitor").stdout
    machine.cluster_ready("sleeper")
    machine.manta("delete", "pod", "visitor")
    machine.manta("delete", "raycluster", "sleeper")


def test_a_detached_actor_keeps_a_cluster_awake(machine: Machine) -> None:
    machine.apply(cluster("busy", workers=0))
    machine.cluster_ready("busy")
    script = (
        "import ray; ray.init(logging_level='error')\n"
        "class Kept:\n  def there(self): return True\n"
        "kept = ray.remote(num_cpus=0)(Kept).options(name='kept', lifetime='detached').remote()\n"
        "print(ray.get(kept.there.remote()))"
    )
    assert "True" in machine.exec(head_of(machine, "busy"), "python", "-c", script)
    machine.apply(cluster("busy", workers=0, annotations=AFTER))
    deadline = time.monotonic() + 3 * LIMIT
    while time.monotonic() < deadline:
        assert not machine.get("raycluster", "busy")["spec"].get("suspend")
        time.sleep(2)
    condition = idle_condition(machine, "busy")
    assert (condition["status"], condition["reason"]) == ("False", "ActorAlive"), json.dumps(
        condition
    )
    machine.manta("delete", "raycluster", "busy")
