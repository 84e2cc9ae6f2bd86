"""Ways to use a cluster of real Ray: how each begins in its head, what is then said of it, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass

END = "/tmp/end"
"""What runs in the background ends when this file is there."""
RUN = "RUN"
"""Stands in the scripts for the number of the run."""
_INIT = 'import ray, os, time; ray.init(logging_level="error", namespace="n")\n'
_HELD = f'print("begun", flush=True)\nwhile not os.path.exists("{END}"): time.sleep(0.2)\n'
_DRIVER = frozenset(("False DriverRunning",))
_ACTOR = frozenset(("False ActorAlive",))
_GROUP = frozenset(("False PlacementGroupExists",))
_SILENT = frozenset(("Unknown DashboardUnreachable", "Unknown HeadNotReady"))


@dataclass(frozen=True)
class Use:
    begin: str
    """Python for the head."""
    expected: frozenset[str]
    """Status and reason of the condition Idle; one of them has to be seen."""
    end: str = ""
    """Python for the head; without it the file `END` ends the use."""
    in_background: bool = False
    """`begin` runs until the end, and says "begun" as soon as the cluster is used."""


def _submit(*arguments: str) -> str:
    command = ["ray", "job", "submit", "--no-wait", "--submission-id", *arguments]
    return f"import subprocess; subprocess.run({command!r}, check=True)"


def _signal(name: str) -> str:
    # The brackets keep pkill from the process that runs it.
    of = "dashboard/[d]ashboard.py", "ray::[D]ashboard"
    return f"import os; os.system({'; '.join(f'pkill -{name} -f {one}' for one in of)!r})"


_REMOTE = """
class Kept:
    def there(self): return True
kept = ray.remote(num_cpus=%d)(Kept).options(name="kept", lifetime="detached").remote()
"""
_GANG = """
from ray.util.placement_group import placement_group
gang = placement_group([{"CPU": %s}], name="gang", lifetime="detached")
"""
_NO_GANG = """
from ray.util import get_placement_group, remove_placement_group
remove_placement_group(get_placement_group("gang"))
"""
_SERVE = """
from ray import serve
@serve.deployment(ray_actor_options={"num_cpus": 0})
def hello(request): return "hello"
serve.run(hello.bind(), name="app", blocking=False)
"""
_KILL_SUPERVISOR = f"""
one = "_ray_internal_job_actor_queued-{RUN}"
ray.kill(ray.get_actor(one, namespace="SUPERVISOR_ACTOR_RAY_NAMESPACE"))
"""
_DEMAND = _INIT + "task = ray.remote(num_cpus=100)(lambda: 1).remote()\n" + _HELD
_CLIENT = """
import glob, os, time, ray
try:
    ray.init("ray://127.0.0.1:10001", logging_level="error")
except Exception:
    for file in glob.glob("/tmp/ray/session_latest/logs/ray_client_server*"):
        print(file, open(file).read()[-1000:])
    raise
"""
_NOW_AND_THEN = f"""
import os, subprocess, sys, time
short = 'import ray; ray.init(logging_level="error"); ray.shutdown()'
while not os.path.exists("{END}"):
    subprocess.run([sys.executable, "-c", short], check=True)
    print("begun", flush=True)
    time.sleep(4)
"""

USES = {
    "detached actor": Use(
        _INIT + _REMOTE % 0 + "ray.get(kept.there.remote())",
        _ACTOR,
        _INIT + 'ray.kill(ray.get_actor("kept"))',
    ),
    "detached actor that waits for resources": Use(
        _INIT + _REMOTE % 100, _ACTOR, _INIT + 'ray.kill(ray.get_actor("kept"))'
    ),
    "Ray Client": Use(
        _CLIENT + _HELD,
        _DRIVER,
        in_background=True,
    ),
    "driver that does nothing": Use(_INIT + _HELD, _DRIVER, in_background=True),
    "sleeping task": Use(
        _INIT
        + "task = ray.remote(num_cpus=0)(lambda: time.sleep(600)).remote()\n"
        + _HELD
        + "ray.cancel(task, force=True)",
        _DRIVER,
        in_background=True,
    ),
    "task that waits for resources": Use(_DEMAND, _DRIVER, in_background=True),
    "queued job": Use(
        _submit(f"queued-{RUN}", "--entrypoint-num-cpus", "100", "--", "true"),
        _ACTOR,
        _INIT + _KILL_SUPERVISOR,
    ),
    "job that waits for resources": Use(
        _submit(f"demand-{RUN}", "--", "python", "-c", _DEMAND), _DRIVER | _ACTOR
    ),
    "job that does not use Ray": Use(
        _submit(f"plain-{RUN}", "--", "python", "-c", "import os, time\n" + _HELD), _ACTOR
    ),
    "placement group that waits": Use(_INIT + _GANG % 50, _GROUP, _INIT + _NO_GANG),
    "placement group": Use(_INIT + _GANG % 0.1 + "assert gang.wait(60)", _GROUP, _INIT + _NO_GANG),
    "Serve application": Use(
        _INIT + _SERVE, _ACTOR, _INIT + 'from ray import serve; serve.delete("app")'
    ),
    "dashboard that hangs": Use(_signal("STOP"), _SILENT, _signal("CONT")),
    "short scripts now and then": Use(
        # They live between two questions: Ray's counters tell that somebody was there.
        _NOW_AND_THEN,
        _DRIVER | {"True NotInUse"},
        in_background=True,
    ),
}
