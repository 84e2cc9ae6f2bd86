"""Canaries under load: `python -m tests.e2e.canaries_at_length [--count 10] [--requests 10000] [--results FILE]`.

On a plane of its own with real Ray Serve and fake GPUs, one for each worker. Somebody calls all the time. In each
canary bursts of so many requests in all, each on a connection of its own, measure the share of the new edition while
a step waits, and it is compared with its share of the Pods. In the last ones the new edition answers 5 % of its
requests with errors. Prints one JSON line per canary and one at the end, and appends them to FILE; exit code 1 when a
request failed that no fault explains, a share is off by more than 3 points, more GPUs were held than the surge
allows, or a rollback took longer than 30 s from the moment that the errors passed the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.canaries import Canary, CanaryServed, shares
from e2e.conftest import why_not
from e2e.mirror import WatchedMachine, mirrored
from e2e.serving import Life, Traffic
from support.rollback_time import Limit, Seen, seconds_to_roll_back

Json = dict[str, Any]
POINTS = 3.0
SECONDS = 30.0
ERRORS = 0.05
LIMIT = 0.02
WINDOW = 30
"""Seconds of the analysis, as `CanaryServed` sets them."""
MIN_REQUESTS = 25
"""Half of those that a verdict needs: there are two who call, and one of them is asked."""
GPU = "nvidia.com/gpu"


@dataclass
class Gpus:
    """The most GPUs that Pods held at once, also those that are being deleted."""

    machine: WatchedMachine
    most: int = 0

    def look(self) -> None:
        pods = self.machine.list("pods")
        self.most = max(self.most, sum(map(_gpus, pods)))


def _gpus(pod: Json) -> int:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    found = [one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]]
    return sum(int(limits.get(GPU, 0)) for limits in found)


@dataclass
class Phases:
    """How long each part of a canary took."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)

    def end(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name] = round(now - self._since, 1)
        self._since = now


@dataclass
class Run:
    canary: Canary
    gpus: Gpus
    tell: Callable[..., None]
    bursts: int = 0
    """Requests of bursts so far, and those of them that failed."""
    failures: int = 0
    failed: list[str] = field(default_factory=list)
    """What the first ones of each burst say."""

    def healthy(self, edition: str, requests: int) -> Json:
        """One canary to its end; the shares that its Pods allow and those that were measured."""
        canary, served, phases = self.canary, self.canary.served, Phases()
        failed_before = len(self.failed)
        first, self.gpus.most, before = canary.life.active(), 0, canary.traffic.so_far()
        canary.machine.apply(*served.manifests(edition, gpus=True))
        measured: list[tuple[float, float]] = []
        for weight, _, _ in served.steps:
            canary.machine.until(f"{weight} %", partial(canary.reached, weight), 900)
            phases.end(f"to {weight} %")
            measured.append(self.split(first, edition, requests // len(served.steps)))
            phases.end(f"requests at {weight} %")
            canary.machine.manta("upgrade", "promote", served.name)
        canary.machine.until("its end", lambda: canary.life.active() not in ("", first), 900)
        phases.end("to 100 %")
        canary.machine.until("one cluster", lambda: len(canary.life.clusters()) == 1, 300)
        phases.end("old cluster gone")
        return {
            "canary": edition,
            "allowed": [round(one, 2) for one, _ in measured],
            "shares": [round(one, 2) for _, one in measured],
            "off_by": round(max(abs(allowed - share) for allowed, share in measured), 2),
            "most_gpus": self.gpus.most,
            "phases": phases.seconds,
            **_since(before, canary.traffic.so_far()),
            "failed_of_bursts": self.failed[failed_before:],
        }

    def split(self, old: str, edition: str, requests: int) -> tuple[float, float]:
        """The share of Pods that are new, and of the answers to so many requests."""
        pods = self.canary.pods()
        seen = self.canary.traffic.burst(requests)
        assert pods == self.canary.pods(), "Pods joined or left while a step waits"
        self.bursts += seen["requests"]
        self.failures += seen["failed"]
        self.failed += seen["failures"]
        answers = shares(seen["answers"])
        allowed = 100 * (pods.total() - pods[old]) / pods.total()
        return allowed, 100 * answers[edition] / max(answers.total(), 1)

    def failing(self, edition: str) -> Json:
        """A canary with errors: how long after they pass the limit the last request reaches it."""
        canary, phases = self.canary, Phases()
        failed, active = canary.traffic.seen_inside()["failed"], canary.life.active()
        self.gpus.most = 0
        canary.machine.apply(*canary.served.manifests(edition, failures=ERRORS, gpus=True))
        canary.machine.until(
            "the rollback",
            lambda: canary.condition("RollbackInProgress").get("reason") == "CanaryRejected",
            1200,
        )
        phases.end("to the verdict")
        told = canary.condition("RollbackInProgress")["message"]
        time.sleep(5)
        seconds = _seconds_to_roll_back(canary, edition, failed)
        size = {active: canary.served.workers}
        canary.machine.until("its size", lambda: canary.pods() == size, 600)
        canary.machine.until("one cluster", lambda: len(canary.life.clusters()) == 1, 300)
        phases.end("to the old size")
        return {
            "canary": edition,
            "errors": ERRORS,
            "rolled_back_after_s": seconds,
            "said": told,
            "most_gpus": self.gpus.most,
            "phases": phases.seconds,
        }


def _since(before: Json, after: Json) -> Json:
    """What those saw who call all the time, in one canary. Of all failures they tell the first ones."""
    return {
        "requests": after["requests"] - before["requests"],
        "failed": after["failed"] - before["failed"],
        "failures": [text for text in after["failures"] if text not in before["failures"]],
    }


def _seconds_to_roll_back(canary: Canary, edition: str, failed_before: int) -> float | None:
    """From the lines that a caller prints about once a second. None if it never saw the limit broken."""
    lines = canary.machine.manta("logs", f"{canary.served.name}-caller").stdout.splitlines()
    history = [_seen(json.loads(line), edition, failed_before) for line in lines]
    return seconds_to_roll_back(history, Limit(LIMIT, WINDOW, MIN_REQUESTS))


def _seen(line: Json, edition: str, failed_before: int) -> Seen:
    answers = line["answers"].items()
    good = sum(count for text, count in answers if text.startswith(f"{edition}:"))
    failed = max(0, line["failed"] - failed_before)
    return Seen(line["at"], good + failed, failed)


def everything(
    machine: WatchedMachine, tell: Callable[..., None], numbers: range, requests: int, bad: int
) -> Json:
    served = CanaryServed(steps=((33, 0, True), (50, 0, True)))
    traffic, gpus, began = Traffic(machine, served), Gpus(machine), Phases()
    canary = Canary(machine, served, Life(machine, served), traffic)
    machine.apply(*served.manifests("0", gpus=True))
    machine.until("it exists", lambda: machine.has("rayservice", served.name), 30)
    canary.life.wait(900)
    began.end("service_runs_after_s")
    tell(**began.seconds)
    traffic.start()
    run, results, failing = Run(canary, gpus, tell), [], []
    try:
        with machine.mirror.watched_by(gpus.look):
            for number in numbers:
                results.append(run.healthy(str(number), requests))
                tell(**results[-1])
            seen = traffic.so_far()  # before errors are injected
            for number in range(numbers.stop, numbers.stop + bad):
                failing.append(run.failing(str(number)))
                tell(**failing[-1])
    except KeyboardInterrupt:
        tell(stopped=True)
        seen = traffic.so_far()
    finally:
        traffic.kill()
    return {
        "canaries": len(results),
        "requests": seen["requests"] + run.bursts,
        "failed_requests": seen["failed"] + run.failures,
        "failed": seen["failures"] + run.failed,
        "off_by": max((one["off_by"] for one in results), default=0.0),
        "most_gpus": max((one["most_gpus"] for one in results + failing), default=0),
        "allowed_gpus": served.workers + 1,
        "rolled_back_after_s": [one["rolled_back_after_s"] for one in failing],
    }


def is_good(result: Json) -> bool:
    return (
        not result["failed_requests"]
        and result["off_by"] <= POINTS
        and result["most_gpus"] <= result["allowed_gpus"]
        and all(one is not None and one <= SECONDS for one in result["rolled_back_after_s"])
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument(
        "--from", dest="begin", type=int, default=1, help="leave out the canaries before this one"
    )
    parser.add_argument("--requests", type=int, default=10_000, help="measured in each canary")
    parser.add_argument("--failing", type=int, default=2, help="canaries with errors, at the end")
    parser.add_argument("--results", type=Path, help="append the lines to this file")
    parser.add_argument(
        "--up", default="", help="more flags of `manta up`, such as a --service-cidr"
    )
    args = parser.parse_args()
    if reason := why_not():
        parser.error(reason)

    def tell(**values: Any) -> None:
        values["load_average"] = round(os.getloadavg()[0], 1)  # without CPU, Ray itself fails
        text = json.dumps(values) + "\n"
        sys.stdout.write(text)
        sys.stdout.flush()
        if args.results:
            with args.results.open("a") as file:
                file.write(text)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` ends it with its figures
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="m") as directory:
        plane = WatchedMachine(Path(directory))
        plane.manta("up", "--cpus", "8", "--fake-gpus", "8", *args.up.split())
        try:
            with mirrored(Path(directory)) as machine:
                numbers = range(args.begin, args.count + 1)
                result = everything(machine, tell, numbers, args.requests, args.failing)
        finally:
            plane.manta("down", "--purge", check=False)
    tell(**result, seconds=round(time.monotonic() - began))
    is_whole = (
        result["canaries"] == args.count + 1 - args.begin
        and len(result["rolled_back_after_s"]) == args.failing
    )
    return 0 if is_whole and is_good(result) else 1


if __name__ == "__main__":
    os.environ.pop("KUBECONFIG", None)
    sys.exit(main())
