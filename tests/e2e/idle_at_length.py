"""Every way to use real Ray keeps its cluster awake; a dashboard that hangs does too. `make idle` runs this."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.conftest import Machine
from e2e.objects import cluster
from e2e.test_idle import AFTER, LIMIT, head_of, idle_condition, is_asleep

pytestmark = pytest.mark.embedded_only(reason="`manta up` wakes a cluster that is used")

WATCHED = 2.5 * LIMIT
DETACHED = """
import ray; ray.init(logging_level="error")
class Kept:
    def there(self): return True
kept = ray.remote(num_cpus=0)(Kept).options(name="kept", namespace="n", lifetime="detached").remote()
ray.get(kept.there.remote())
"""
END_DETACHED = """
import ray; ray.init(logging_level="error", namespace="n"); ray.kill(ray.get_actor("kept"))
"""
CLIENT = """
import ray, time; ray.init("ray://127.0.0.1:10001", logging_level="error")
print("connected", flush=True); time.sleep(%d)
"""
TASK = """
import ray, time; ray.init(logging_level="error"); print("connected", flush=True)
ray.get(ray.remote(num_cpus=0)(lambda: time.sleep(%d)).remote())
"""
QUEUED_TASK = """
import ray, time; ray.init(logging_level="error"); print("connected", flush=True)
ray.get(ray.remote(num_cpus=100)(lambda: 1).remote(), timeout=%d)
"""
GROUP = """
import ray; ray.init(logging_level="error", namespace="n")
from ray.util.placement_group import placement_group
placement_group([{"CPU": 50}], name="gang", lifetime="detached")
"""
END_GROUP = """
import ray; ray.init(logging_level="error", namespace="n")
from ray.util import get_placement_group, remove_placement_group
remove_placement_group(get_placement_group("gang"))
"""
SERVE = """
import ray; from ray import serve; ray.init(logging_level="error")
@serve.deployment(ray_actor_options={"num_cpus": 0})
def hello(request): return "hello"
serve.run(hello.bind(), name="app", blocking=False)
"""
END_SERVE = """
import ray; from ray import serve; ray.init(logging_level="error"); serve.delete("app")
"""
SUBMIT = "import os; os.system('ray job submit --no-wait --submission-id %s %s')"


@pytest.fixture(scope="module")
def head(machine: Machine) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs Python in the head of a cluster that is suspended when nobody uses it."""
    limit(machine, "0")
    machine.cluster_ready("used")

    def python(script: str) -> subprocess.Popen[str]:
        command = machine.command("exec", head_of(machine, "used"), "--", "python", "-c", script)
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    yield python
    machine.manta("delete", "raycluster", "used")


def run(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said


@contextmanager
def in_background(process: subprocess.Popen[str]) -> Iterator[None]:
    with process:  # closes its pipe, and waits
        try:
            yield
        finally:
            process.terminate()


def stays_awake(machine: Machine, seconds: float = WATCHED) -> set[str]:
    """The reasons of the condition meanwhile."""
    seen = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert not machine.get("raycluster", "used")["spec"].get("suspend"), "it was suspended"
        condition = idle_condition(machine, "used")
        seen.add(f"{condition.get('status')} {condition.get('reason')}")
        time.sleep(1)
    return seen


def limit(machine: Machine, after: str = "") -> None:
    """While a use begins or ends, which takes long on a busy machine, the cluster has no limit."""
    chosen = {"manta.ray.io/idle-suspend-after": after} if after else {}
    machine.apply(cluster("used", workers=0, annotations=AFTER | chosen))


def awake(machine: Machine) -> None:
    limit(machine, "0")
    if is_asleep(machine, "used") or machine.get("raycluster", "used")["spec"].get("suspend"):
        machine.until("it sleeps", lambda: is_asleep(machine, "used"))
        machine.manta("resume", "used")
        machine.cluster_ready("used")


Head = Callable[[str], subprocess.Popen[str]]

LEFT_BEHIND = {
    "detached actor": (DETACHED, "False ActorAlive", END_DETACHED),
    "queued job": (
        SUBMIT % ("queued", "--entrypoint-num-cpus 100 -- true"),
        "False ActorAlive",
        "import os; os.system('ray job stop --no-wait queued')",
    ),
    "job that does not use Ray": (SUBMIT % ("plain", "-- sleep 90"), "False ActorAlive", ""),
    "placement group that waits": (GROUP, "False PlacementGroupExists", END_GROUP),
    "Serve application": (SERVE, "False ActorAlive", END_SERVE),
}


@pytest.mark.parametrize("story", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_a_script_leaves_behind_is_use(
    machine: Machine, head: Head, story: tuple[str, str, str]
) -> None:
    begin, reason, end = story
    awake(machine)
    run(head(begin))
    limit(machine)
    assert reason in stays_awake(machine)
    if end:
        limit(machine, "0")
        run(head(end))
        limit(machine)
    machine.until("it sleeps", lambda: is_asleep(machine, "used"), 300)


RUNNING = {"Ray Client": CLIENT, "sleeping task": TASK, "queued task": QUEUED_TASK}


@pytest.mark.parametrize("script", RUNNING.values(), ids=RUNNING)
def test_what_runs_is_use(machine: Machine, head: Head, script: str) -> None:
    awake(machine)
    process = head(script % 600)
    with in_background(process):
        assert process.stdout is not None
        assert "connected" in process.stdout.readline()
        limit(machine)
        assert "False DriverRunning" in stays_awake(machine)


def test_a_dashboard_that_hangs_proves_nothing(machine: Machine, head: Head) -> None:
    awake(machine)
    # The brackets keep pkill from the process that runs it.
    signal = "import os; os.system('pkill -%s -f dashboard/[d]ashboard.py; pkill -%s -f ray::[D]ashboard')"
    run(head(signal % ("STOP", "STOP")))
    limit(machine)
    seen = stays_awake(machine, 3 * LIMIT)
    assert "Unknown DashboardUnreachable" in seen or "Unknown HeadNotReady" in seen, seen
    run(head(signal % ("CONT", "CONT")))
    machine.until("it sleeps", lambda: is_asleep(machine, "used"), 300)
