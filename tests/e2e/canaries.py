"""Canaries of real Ray Serve under load: what is served, and where its requests go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.conftest import ROOT, Machine
from e2e.serving import Life, Served, Traffic

Json = dict[str, Any]


@dataclass(frozen=True)
class CanaryServed(Served):
    """The example of a canary; another edition is another cluster."""

    workers: int = 2
    steps: tuple[tuple[int, int, bool], ...] = ((33, 5, False), (50, 5, True))
    """(weight, pause in seconds, whether it waits until it is promoted)."""

    @property
    def name(self) -> str:
        return "greet"

    @property
    def path(self) -> str:
        return ""

    def manifests(self, edition: str, failures: float = 0.0, *, gpus: bool = False) -> list[Json]:
        text = (ROOT / "examples" / "rayservice-canary.yaml").read_text()
        *others, service = yaml.safe_load_all(text)
        spec = service["spec"]
        spec["rayClusterDeletionDelaySeconds"] = self.delete_after
        options = spec["upgradeStrategy"]["canaryUpgradeOptions"]
        options["steps"] = [
            {"weight": weight, "pauseSeconds": pause, "untilPromoted": waits}
            for weight, pause, waits in self.steps
        ]
        # The machine of a test is slow: only errors are judged.
        options["analysis"] = {"maxErrorPercent": 2, "minRequests": 50, "windowSeconds": 30}
        config = spec["serveConfigV2"].replace("num_replicas: 4", f"num_replicas: {self.workers}")
        spec["serveConfigV2"] = config
        cluster = spec["rayClusterConfig"]
        cluster["workerGroupSpecs"][0]["replicas"] = self.workers
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            [ray] = group["template"]["spec"]["containers"]
            values = {"PYTHONPATH": "/app", "EDITION": edition, "FAILURES": str(failures)}
            ray["env"] = [{"name": name, "value": value} for name, value in values.items()]
        if gpus:
            [worker] = cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"]
            worker["resources"]["limits"]["nvidia.com/gpu"] = "1"
        return [*others, service]


@dataclass
class Canary:
    """One service, the machine that runs it, and those who call it."""

    machine: Machine
    served: CanaryServed
    life: Life
    traffic: Traffic

    def reached(self, weight: int) -> bool:
        side = self.life.status().get("pendingServiceStatus", {})
        return side.get("trafficRoutedPercent") == weight and "lastTrafficMigratedTime" in side

    def condition(self, type_: str) -> Json:
        found = self.life.status().get("conditions", ())
        return next((one for one in found if one["type"] == type_), {})

    def pods(self) -> Counter[str]:
        """How many Pods of each cluster take requests."""
        service = self.machine.get("svc", f"{self.served.name}-serve-svc")
        labels = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
        return Counter(
            pod["metadata"]["labels"]["ray.io/cluster"]
            for pod in self.machine.list("pods", labels)
            if _is_ready(pod)
        )

    def answers(self) -> Counter[str]:
        """How often each edition answered the Pod that calls."""
        return shares(self.traffic.seen_inside()["answers"])

    def share(self, edition: str, requests: int, seconds: float = 240) -> float:
        """The percentage of the next so many answers that are of this edition."""
        before = self.answers()
        self.machine.until(
            f"{requests} answers",
            lambda: (self.answers() - before).total() >= requests,
            seconds,
        )
        more = self.answers() - before
        return 100 * more[edition] / more.total()


def shares(answers: dict[str, int]) -> Counter[str]:
    """How often each edition answered."""
    found: Counter[str] = Counter()
    for text, count in answers.items():
        found[text.partition(":")[0]] += count
    return found


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
