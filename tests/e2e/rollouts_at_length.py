"""Rolling updates of real Ray under load: `python -m tests.e2e.rollouts_at_length [--count 20] [--results FILE]`.

On one plane, one cluster after the other: one without the autoscaler, one with its version 1, one with version 2.
Each is updated a third of the times, under one load without a pause: tasks, tasks that are longer than a worker may
drain, actors with restarts, large objects; with an autoscaler also bursts that make it resize the group meanwhile.
Then a bad image is rolled back under the same load, and a head is replaced whose state is in Redis.

Prints one JSON line per update and one at the end, and appends them to FILE; exit code 1 when anything of the load
failed, workers were missing that should have been ready, there were two heads, or an update did not end as it should.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.conftest import why_not
from e2e.mirror import WatchedMachine, mirrored
from e2e.objects import cluster
from e2e.rolling import Watched, edited, follow, head_of, loaded, values, watched
from e2e.test_fault_tolerance import redis_server

Json = dict[str, Any]
DRAIN = 15
"""Seconds. Nothing of the load needs more, but its long tasks and its actors, which Ray begins again elsewhere."""
WORKERS, MOST = 2, 3
TIMEOUT = 900
"""Seconds for one step on a busy machine."""


@dataclass
class Run:
    machine: WatchedMachine
    results: Path | None = None
    lines: list[Json] = field(default_factory=list)

    def tell(self, **line: Any) -> None:
        line["load_average"] = round(os.getloadavg()[0], 1)  # without CPU, Ray itself fails
        self.lines.append(line)
        text = json.dumps(line) + "\n"
        sys.stdout.write(text)
        sys.stdout.flush()
        if self.results:
            with self.results.open("a") as file:
                file.write(text)


# ── clusters ─────────────────────────────────────────────────────────────────────────────


def rolling(name: str, autoscaler: str = "", **spec: Any) -> Json:
    """Two workers that hold no more than one more (without the autoscaler), or miss no more than one (with it)."""
    limits = {"maxUnavailable": 1} if autoscaler else {"maxSurge": 1}
    options = {**limits, "drainSeconds": DRAIN, "progressDeadlineSeconds": 600}
    manifest = cluster(
        name,
        workers=WORKERS,
        head={"rayStartParams": {"num-cpus": "0"}},
        group={"minReplicas": WORKERS, "maxReplicas": MOST},
        upgradeStrategy={"type": "RollingUpdate", "rollingUpdate": options},
        **(_autoscaled(autoscaler) if autoscaler else {}),
        **spec,
    )
    if autoscaler:
        del manifest["spec"]["workerGroupSpecs"][0]["replicas"]  # they are the autoscaler's
    return manifest


def _autoscaled(version: str) -> Json:
    small = {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "100m", "memory": "256Mi"},
    }
    options = {"version": version, "idleTimeoutSeconds": 15, "resources": small}
    return {"enableInTreeAutoscaling": True, "autoscalerOptions": options}


def started(run: Run, manifest: Json) -> str:
    """The cluster, ready and at its first revision; the name of its head."""
    name, began = manifest["metadata"]["name"], time.monotonic()
    run.machine.apply(manifest)
    run.machine.until("it exists", lambda: run.machine.has("raycluster", name), 30)
    run.machine.cluster_ready(name, TIMEOUT)
    done = follow(run.machine, name, TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    run.tell(cluster=name, ready_after_s=round(time.monotonic() - began, 1))
    return str(head_of(run.machine, name)["metadata"]["name"])


# ── updates ──────────────────────────────────────────────────────────────────────────────


@contextmanager
def sizes(machine: WatchedMachine, name: str) -> Iterator[list[int]]:
    """The replicas that the cluster wanted, one after the other."""
    found: list[int] = []

    def look() -> None:
        group = machine.get("raycluster", name)["spec"]["workerGroupSpecs"][0]
        wanted = min(max(group.get("replicas", 0), group["minReplicas"]), group["maxReplicas"])
        if found[-1:] != [wanted]:
            found.append(wanted)

    with machine.mirror.watched_by(look):
        yield found


def update(run: Run, manifest: Json, number: int, autoscaler: str) -> None:
    name, began = manifest["metadata"]["name"], time.monotonic()
    changed = edited(manifest, str(number))
    with watched(run.machine, name) as seen, sizes(run.machine, name) as wanted:
        run.machine.apply(changed)
        done = follow(run.machine, name, TIMEOUT)
    least = min(wanted) - (1 if autoscaler else 0)
    run.tell(
        update=number,
        cluster=name,
        seconds=round(time.monotonic() - began, 1),
        complete=done.returncode == 0 and values(run.machine, name) == {str(number)},
        **_seen(seen, least, max(wanted) + (0 if autoscaler else 1)),
        replicas=wanted,
        **({} if done.returncode == 0 else {"said": done.stdout[-2000:] + done.stderr[-500:]}),
    )


def _seen(seen: Watched, least: int, most: int) -> Json:
    return {
        "fewest_ready": seen.fewest,
        "least_allowed": least,
        "most_workers": seen.most,
        "most_allowed": most,
        "heads": seen.heads,
    }


def bad_image(run: Run, manifest: Json) -> None:
    """The last update's spec with an image that nobody has: it is given up, and no old worker is missed."""
    name, began = manifest["metadata"]["name"], time.monotonic()
    before = values(run.machine, name)
    broken = edited(manifest, "bad")
    [ray] = broken["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    ray["image"] = "registry.invalid/none:0"
    options = broken["spec"]["upgradeStrategy"]["rollingUpdate"]
    options |= {"progressDeadlineSeconds": 30, "onFailure": "rollback"}
    with watched(run.machine, name) as seen:
        run.machine.apply(broken)
        done = follow(run.machine, name, TIMEOUT)
        run.machine.until("the old workers", lambda: values(run.machine, name) == before, TIMEOUT)
    run.tell(
        bad_image=True,
        cluster=name,
        seconds=round(time.monotonic() - began, 1),
        complete=done.returncode == 1 and "was given up" in done.stdout,
        said=done.stdout.splitlines()[-1:],
        **_seen(seen, WORKERS, WORKERS + 1),
    )


def updates(run: Run, autoscaler: str, numbers: range, *, then_bad: bool = False) -> None:
    """The updates of one cluster, under one load."""
    if not numbers:
        return
    name = f"long-{autoscaler or 'plain'}"
    manifest = rolling(name, autoscaler)
    head = started(run, manifest)
    with loaded(run.machine, head, bursts=bool(autoscaler)) as load:
        for number in numbers:
            update(run, manifest, number, autoscaler)
        if then_bad:
            bad_image(run, edited(manifest, str(numbers[-1])))
    run.tell(load=name, **load)
    run.machine.manta("delete", "raycluster", name)


def head_with_redis(run: Run) -> None:
    """Only the head changes. The load runs on a worker, and goes on while there is no head."""
    run.machine.apply(*redis_server())
    run.machine.until("Redis", lambda: _is_ready(run.machine, "redis"))
    name = "long-redis"
    manifest = rolling(name, gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    before = started(run, manifest)
    worker = run.machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=worker")[0]
    workers = _uids(run.machine, name)
    with loaded(run.machine, worker["metadata"]["name"], "ray-worker") as load:
        began = time.monotonic()
        with watched(run.machine, name) as seen:
            run.machine.apply(edited(manifest, "1", "head"))
            done = follow(run.machine, name, TIMEOUT)
        took = time.monotonic() - began
        time.sleep(20)  # the load goes on with the new head
    run.tell(
        head=name,
        seconds=round(took, 1),
        complete=done.returncode == 0 and _head(run.machine, name) != before,
        workers_kept=_uids(run.machine, name) == workers,
        said=done.stdout.splitlines()[-3:],
        **_seen(seen, 0, WORKERS),
    )
    run.tell(load=name, **load)
    run.machine.manta("delete", "raycluster", name)


def _head(machine: WatchedMachine, name: str) -> str:
    return str(head_of(machine, name)["metadata"]["name"])


def _uids(machine: WatchedMachine, name: str) -> set[str]:
    found = machine.list("pods", f"ray.io/cluster={name},ray.io/node-type=worker")
    return {pod["metadata"]["uid"] for pod in found}


def _is_ready(machine: WatchedMachine, deployment: str) -> bool:
    status = machine.get("deployment", deployment).get("status", {})
    return bool(status.get("readyReplicas") == 1)


# ── the whole ────────────────────────────────────────────────────────────────────────────


def shares(count: int, begin: int = 1) -> dict[str, range]:
    """Which updates which cluster gets: a third each. Those before `begin` are done."""
    first, second = count - 2 * (count // 3), count // 3
    return {
        "": range(begin, first + 1),
        "v1": range(max(begin, first + 1), first + second + 1),
        "v2": range(max(begin, first + second + 1), count + 1),
    }


def everything(run: Run, count: int, *, begin: int, only: str) -> None:
    each = shares(count, begin)
    parts: dict[str, Callable[[], None]] = {
        "plain": partial(updates, run, "", each[""], then_bad=True),
        "redis": partial(head_with_redis, run),
        "v2": partial(updates, run, "v2", each["v2"]),
        "v1": partial(updates, run, "v1", each["v1"]),
    }
    if not shutil.which("redis-server"):
        run.tell(skipped="redis: redis-server is not installed (tools/redis.sh)")
        del parts["redis"]
    for name, part in parts.items():
        if only and name not in only.split(","):
            continue
        try:
            part()
        except KeyboardInterrupt:
            run.tell(stopped=name)
            return
        except (
            AssertionError,
            OSError,
            KeyError,
            ValueError,
        ) as error:  # the other parts are still worth their time
            run.tell(error=f"{name}: {type(error).__name__}: {error}"[:3000], complete=False)
            run.machine.manta("delete", "raycluster", f"long-{name}", check=False)


def summary(lines: list[Json], seconds: float) -> Json:
    loads = [line for line in lines if "load" in line]
    rolled = [line for line in lines if "fewest_ready" in line]
    counted = ("tasks", "long_tasks", "begun_again", "calls", "restarts", "objects", "bursts")
    return {
        "updates": sum("update" in line for line in lines),
        "stopped": any("stopped" in line for line in lines),
        "complete": sum("update" in line and line["complete"] for line in lines),
        "bad_images_rolled_back": sum("bad_image" in line and line["complete"] for line in lines),
        "heads_replaced": sum("head" in line and line["complete"] for line in lines),
        **{key: sum(line[key] for line in loads) for key in counted},
        "failed": [text for line in loads for text in line["failures"]],
        "workers_missing": sum(line["fewest_ready"] < line["least_allowed"] for line in rolled),
        "workers_too_many": sum(line["most_workers"] > line["most_allowed"] for line in rolled),
        "most_heads": max((line["heads"] for line in rolled), default=0),
        "seconds": round(seconds),
    }


def is_good(result: Json, lines: list[Json]) -> bool:
    return (
        not result["stopped"]
        and all(line.get("complete", True) and line.get("workers_kept", True) for line in lines)
        and not result["failed"]
        and not result["workers_missing"]
        and not result["workers_too_many"]
        and result["most_heads"] == 1
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument(
        "--from", dest="begin", type=int, default=1, help="leave out the updates before this one"
    )
    parser.add_argument("--only", default="", help="of plain, v1, v2, redis: such as v2,redis")
    parser.add_argument("--results", type=Path, help="append the lines to this file")
    parser.add_argument(
        "--up", default="", help="more flags of `manta up`, such as a --service-cidr"
    )
    args = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` ends it with its figures
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="m") as directory:
        machine = WatchedMachine(Path(directory))
        machine.manta("up", "--cpus", "8", *args.up.split())
        try:
            with mirrored(Path(directory)) as machine:
                run = Run(machine, args.results)
                everything(run, args.count, begin=args.begin, only=args.only)
        finally:
            machine.manta("down", "--purge", check=False)
    result = summary(run.lines, time.monotonic() - began)
    run.tell(**result)
    return 0 if is_good(result, run.lines) else 1


if __name__ == "__main__":
    os.environ.pop("KUBECONFIG", None)
    sys.exit(main())
