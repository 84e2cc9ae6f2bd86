"""Many canaries under load: `python -m tests.e2e.canaries_at_length [--count 10] [--requests 10000]`.

On a plane of its own with real Ray Serve and fake GPUs, one for each worker. In each canary the share of the new
edition is measured while a step pauses, and compared with its share of the Pods. In the last one the new edition
answers 5 % of its requests with errors. Prints one JSON line per canary and one at the end; exit code 1 when a
request failed that no fault explains, a share is off by more than 3 points, more GPUs were held than the surge
allows, or the rollback took longer than 30 s from the moment that the errors passed the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.canaries import Canary, CanaryServed
from e2e.conftest import Machine, why_not
from e2e.serving import Life, Traffic

POINTS = 3.0
SECONDS = 30.0
ERRORS = 0.05
LIMIT = 0.02
WINDOW = 30
"""Seconds of the analysis, as `CanaryServed` sets them."""
MIN_REQUESTS = 25
"""Half of those that a verdict needs: there are two who call, and one of them is asked."""


@dataclass
class Gpus:
    """Counts the fake GPUs that Pods hold, twice a second."""

    machine: Machine
    most: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._ended.wait(0.5):
            pods = self.machine.list("pods", "ray.io/node-type=worker")
            held = [pod for pod in pods if pod.get("status", {}).get("phase") != "Succeeded"]
            self.most = max(self.most, len(held))

    def stop(self) -> None:
        self._ended.set()


def healthy(canary: Canary, edition: str, requests: int) -> dict[str, Any]:
    """One canary to its end; the shares that its Pods allow and those that were measured."""
    life, served = canary.life, canary.served
    first, began = life.active(), time.monotonic()
    canary.machine.apply(*served.manifests(edition, gpus=True))
    shares: list[tuple[float, float]] = []
    for weight, _, _ in served.steps:
        canary.machine.until(f"{weight} %", partial(canary.reached, weight), 900)
        pods = canary.pods()
        allowed = 100 * (pods.total() - pods[first]) / pods.total()
        shares.append((allowed, canary.share(edition, requests // len(served.steps), 1800)))
        canary.machine.manta("upgrade", "promote", served.name)
    canary.machine.until("its end", lambda: life.active() not in ("", first), 900)
    canary.machine.until("one cluster", lambda: len(life.clusters()) == 1, 300)
    return {
        "canary": edition,
        "seconds": round(time.monotonic() - began, 1),
        "allowed": [round(one, 1) for one, _ in shares],
        "shares": [round(one, 1) for _, one in shares],
        "off_by": round(max(abs(allowed - share) for allowed, share in shares), 2),
        **canary.traffic.so_far(),
    }


def failing(canary: Canary, edition: str) -> dict[str, Any]:
    """A canary with errors: how long after they pass the limit the last request reaches it."""
    failed = canary.traffic.so_far()["failed"]
    active = canary.life.active()
    canary.machine.apply(*canary.served.manifests(edition, failures=ERRORS, gpus=True))
    canary.machine.until(
        "the rollback",
        lambda: canary.condition("RollbackInProgress").get("reason") == "CanaryRejected",
        1200,
    )
    time.sleep(5)
    seconds = _seconds_to_roll_back(canary, edition, failed)
    canary.machine.until("its size", lambda: canary.pods() == {active: canary.served.workers}, 600)
    return {"canary": edition, "errors": ERRORS, "rolled_back_after_s": seconds}


def _seconds_to_roll_back(canary: Canary, edition: str, failed_before: int) -> int:
    """From the lines that a caller prints once a second."""
    lines = canary.machine.manta("logs", f"{canary.served.name}-caller").stdout.splitlines()
    history = [_counts(json.loads(line), edition, failed_before) for line in lines]
    passed = last = 0
    for at, (requests, errors) in enumerate(history):
        then, errors_then = history[max(0, at - WINDOW)]
        more, wrong = requests - then, errors - errors_then
        if not passed and more >= MIN_REQUESTS and wrong > LIMIT * more:
            passed = at
        if at and requests > history[at - 1][0]:
            last = at
    return max(0, last - passed) if passed else 0


def _counts(line: dict[str, Any], edition: str, failed_before: int) -> tuple[int, int]:
    """Requests that reached this edition, and those of them that failed."""
    answers = line["answers"].items()
    good = sum(count for text, count in answers if text.startswith(f"{edition}:"))
    failed = max(0, line["failed"] - failed_before)
    return good + failed, failed


def run(machine: Machine, count: int, requests: int) -> dict[str, Any]:
    served = CanaryServed(steps=((33, 0, True), (50, 0, True)))
    life, traffic, gpus = Life(machine, served), Traffic(machine, served), Gpus(machine)
    canary = Canary(machine, served, life, traffic)
    machine.apply(*served.manifests("0", gpus=True))
    life.wait()
    traffic.start()
    watcher = threading.Thread(target=gpus.watch)
    watcher.start()
    results = []
    try:
        for number in range(1, count + 1):
            results.append(healthy(canary, str(number), requests))
            _print(**results[-1])
        failed = traffic.so_far()["failed"]
        bad = failing(canary, str(count + 1))
        _print(**bad)
    finally:
        gpus.stop()
        watcher.join()
        traffic.kill()
    return {
        "canaries": count,
        "requests": traffic.so_far()["requests"],
        "failed": failed,
        "off_by": max((one["off_by"] for one in results), default=0.0),
        "most_gpus": gpus.most,
        "allowed_gpus": served.workers + 1,
        "rolled_back_after_s": bad["rolled_back_after_s"],
    }


def is_good(result: dict[str, Any]) -> bool:
    return (
        result["failed"] == 0
        and result["off_by"] <= POINTS
        and result["most_gpus"] <= result["allowed_gpus"]
        and result["rolled_back_after_s"] <= SECONDS
    )


def _print(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--requests", type=int, default=10_000, help="measured in each canary")
    args = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    with tempfile.TemporaryDirectory(prefix="m") as directory:
        machine = Machine(Path(directory))
        machine.manta("up", "--cpus", "8", "--fake-gpus", "8")
        try:
            result = run(machine, args.count, args.requests)
        finally:
            machine.manta("down", "--purge", check=False)
    _print(**result)
    return 0 if is_good(result) else 1


if __name__ == "__main__":
    os.environ.pop("KUBECONFIG", None)
    sys.exit(main())
