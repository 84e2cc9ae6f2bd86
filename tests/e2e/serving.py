"""A RayService of real Ray Serve under load: what is served, who calls it, and what goes wrong.

All requests take the worker path: the head runs no replica and takes no request, so that it can die.
With fault tolerance the workers go on without it (C53).
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

import yaml

from e2e.conftest import ROOT, Machine
from e2e.objects import IMAGE

LOADER = ROOT / "tests" / "support" / "loader.py"
NEW_CLUSTER = "NewCluster"
INCREMENTAL = "NewClusterWithIncrementalUpgrade"
EDITION = re.compile(r"\d+(?=:|\"})")
"""The edition as the examples' answers say it: `3: ...`, or `{... "edition":"3"}`."""
Json = dict[str, Any]

EXAMPLES = {NEW_CLUSTER: "rayservice.yaml", INCREMENTAL: "rayservice-incremental.yaml"}
PACE = {"stepSizePercent": 25, "intervalSeconds": 2, "maxSurgePercent": 50}


# ── what is served ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Served:
    """A RayService of the examples; another edition is another cluster."""

    strategy: str = NEW_CLUSTER
    delete_after: int = 5

    @property
    def is_incremental(self) -> bool:
        return self.strategy == INCREMENTAL

    @property
    def name(self) -> str:
        return "echo" if self.is_incremental else "words"

    @property
    def path(self) -> str:
        return "" if self.is_incremental else "count"

    def manifests(self, edition: str) -> list[Json]:
        text = (ROOT / "examples" / EXAMPLES[self.strategy]).read_text()
        *others, service = yaml.safe_load_all(text)
        spec = service["spec"]
        spec["rayClusterDeletionDelaySeconds"] = self.delete_after
        spec["excludeHeadPodFromServeSvc"] = True
        if self.is_incremental:
            spec["upgradeStrategy"]["clusterUpgradeOptions"] |= PACE
        config = spec["rayClusterConfig"]
        config["gcsFaultToleranceOptions"] = {"backend": "rocksdb"}
        config["headGroupSpec"]["rayStartParams"] = {"num-cpus": "0"}
        for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
            _set_edition(group, edition)
        return [*others, service]


def _set_edition(group: Json, edition: str) -> None:
    [ray] = group["template"]["spec"]["containers"]
    kept = [one for one in ray["env"] if one["name"] != "EDITION"]
    ray["env"] = [*kept, {"name": "EDITION", "value": edition}]


# ── who calls it ─────────────────────────────────────────────────────────────────────────


@dataclass
class Traffic:
    """Two who call without a pause: a Pod by the name that Pods use, and somebody on the machine.

    On a cluster elsewhere there is only the Pod.
    """

    machine: Machine
    served: Served
    _outside: subprocess.Popen[str] | None = None
    _told: IO[str] | None = None
    """What the one on the machine prints, appended: a pipe that nobody reads would stop it after some minutes."""
    _pod: str = ""

    def start(self) -> None:
        inside, outside, host = self._addresses()
        self._pod = f"{self.served.name}-caller"
        self.machine.apply(*_caller(self._pod, inside))
        command = [sys.executable, str(LOADER), outside, "--callers", "2", "--host", host]
        if self.machine.is_here:
            self._told = tempfile.TemporaryFile("a+")  # noqa: SIM115  until `kill`
            self._outside = subprocess.Popen(command, stdout=self._told, text=True)
        self.machine.until("the first answers", lambda: self.seen_inside()["requests"] > 10, 60)

    def _addresses(self) -> tuple[str, str, str]:
        """For a Pod; for the machine; and the Host that the machine has to say."""
        if not self.served.is_incremental:
            name = f"{self.served.name}-serve-svc"
            address = self.machine.get("svc", name)["spec"]["clusterIP"]
            path = f"8000/{self.served.path}"
            return f"http://{name}:{path}", f"http://{address}:{path}", ""
        name = f"{self.served.name}-gateway"
        address = self.machine.get("gateway", name)["status"]["addresses"][0]["value"]
        record = self.machine.directory / "node" / "ingress.json"
        port = json.loads(record.read_text())["port"]
        return (
            f"http://{address}/",
            f"http://127.0.0.1:{port}/",
            f"{name}.default.gateway.localhost",
        )

    def seen_inside(self) -> Json:
        done = self.machine.manta("logs", self._pod, "--tail", "1", check=False)
        return _last(done.stdout)

    def seen_outside(self) -> Json:
        """What the one on the machine saw until about a second ago."""
        if self._told is None:
            return _last("")
        self._told.seek(0)
        whole, _, _ = self._told.read().rpartition("\n")
        return _last(whole)

    def burst(self, requests: int, callers: int = 8) -> Json:
        """So many requests as fast as they are answered, from the Pod that calls, each on its own connection."""
        options = ("--callers", str(callers), "--pause", "0", "--requests", str(requests))
        url = self._addresses()[0]
        return _last(self.machine.exec(self._pod, "python", "-u", "/load/loader.py", url, *options))

    def editions(self) -> set[str]:
        """Which editions have answered a Pod so far."""
        return set(EDITION.findall(" ".join(self.seen_inside()["answers"])))

    def so_far(self) -> Json:
        both = (self.seen_inside(), self.seen_outside())
        return {
            "requests": sum(seen["requests"] for seen in both),
            "failed": sum(seen["failed"] for seen in both),
            "failures": [text for seen in both for text in seen["failures"]],
        }

    def stop(self) -> dict[str, Json]:
        """What each of them saw, from beginning to end."""
        self.machine.manta("exec", self._pod, "--", "touch", "/tmp/ended")
        seen = {}
        if self._outside is not None:
            self._outside.send_signal(signal.SIGTERM)
            self._outside.wait(timeout=60)
            seen["machine"] = self.seen_outside()
        self.machine.until("the caller to end", lambda: self._phase() == "Succeeded", 60)
        seen["pod"] = self.seen_inside()
        self.machine.manta("delete", "pod", self._pod)
        return seen

    def _phase(self) -> str:
        return str(self.machine.get("pod", self._pod).get("status", {}).get("phase", ""))

    def kill(self) -> None:
        """At the end, also after a failure: end the caller on the machine, and close what it printed."""
        if self._outside is not None and self._outside.poll() is None:
            self._outside.kill()
            self._outside.wait()
        if self._told is not None:
            self._told.close()
            self._told = None


def _last(text: str) -> Json:
    lines = text.strip().splitlines()
    if not lines:
        return {"requests": 0, "failed": 0, "failures": [], "answers": {}}
    found: Json = json.loads(lines[-1])
    return found


def _caller(name: str, url: str) -> list[Json]:
    container = {
        "name": "caller",
        "image": IMAGE,
        "command": ["python", "-u", "/load/loader.py", url],
        "args": ["--callers", "2", "--until", "/tmp/ended"],
        "volumeMounts": [{"name": "load", "mountPath": "/load"}],
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "load", "configMap": {"name": "loader"}}],
    }
    meta = {"name": name}
    source = {"loader.py": LOADER.read_text()}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "loader"}, "data": source},
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec},
    ]


# ── what goes wrong ──────────────────────────────────────────────────────────────────────

FREEZE = (
    "import os, signal\n"
    "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
    "    try: words = open(f'/proc/{pid}/cmdline').read()\n"
    "    except OSError: continue\n"
    "    if '/dashboard' + '.py' in words:\n"
    "        os.kill(int(pid), signal.SIG%s)\n"
)


def head_of(machine: Machine, cluster_name: str) -> Json:
    found = machine.list("pods", f"ray.io/cluster={cluster_name},ray.io/node-type=head")
    alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    assert alive, f"{cluster_name} has no head"
    return alive[0]


def kill_head(machine: Machine, active: str) -> None:
    """All that runs in the head of the cluster that serves is gone in one blow."""
    head = head_of(machine, active)["metadata"]["name"]
    blow = ("python", "-c", "import os; os.kill(-1, 9)")
    machine.manta("exec", "-c", "ray-head", head, "--", *blow, check=False)


def kill_operator(machine: Machine, _: str) -> None:
    machine.kill_operator()


def freeze_dashboard(machine: Machine, active: str) -> None:
    """It accepts connections and says nothing for 20 s."""
    head = head_of(machine, active)["metadata"]["name"]
    machine.exec(head, "python", "-c", FREEZE % "STOP", container="ray-head")
    time.sleep(20)
    machine.exec(head, "python", "-c", FREEZE % "CONT", container="ray-head")


FAULTS: dict[str, Callable[[Machine, str], None]] = {
    "head": kill_head,
    "operator": kill_operator,
    "dashboard": freeze_dashboard,
}


# ── its life ─────────────────────────────────────────────────────────────────────────────


@dataclass
class Life:
    """One service from its first start over any number of upgrades."""

    machine: Machine
    served: Served
    edition: int = 0
    most_clusters: int = 0

    def status(self) -> Json:
        found: Json = self.machine.get("rayservice", self.served.name).get("status", {})
        return found

    def active(self) -> str:
        return str(self.status().get("activeServiceStatus", {}).get("rayClusterName", ""))

    def start(self, seconds: float = 400) -> None:
        self.machine.apply(*self.served.manifests("0"))
        self.wait(seconds)

    def wait(self, seconds: float = 400) -> None:
        self.machine.until("the service to run", self._is_at_rest, seconds)

    def upgrade(self, fault: str = "", seconds: float = 600) -> float:
        """To the next edition; returns how long it took."""
        before, began = self.active(), time.monotonic()
        self.edition += 1
        self.machine.apply(*self.served.manifests(str(self.edition)))
        self.machine.until("the pending cluster", lambda: len(self.clusters()) == 2, 60)
        if fault:
            FAULTS[fault](self.machine, before)
        self.machine.until(
            f"upgrade {self.edition} to be over",
            lambda: self.active() != before and self._is_at_rest() and len(self.clusters()) == 1,
            seconds,
        )
        return time.monotonic() - began

    def clusters(self) -> list[Json]:
        labels = f"ray.io/originated-from-cr-name={self.served.name}"
        found = self.machine.list("rayclusters", labels)
        self.most_clusters = max(self.most_clusters, len(found))
        return found

    def end(self) -> None:
        self.machine.manta("delete", "rayservice", self.served.name)

    def _is_at_rest(self) -> bool:
        status = self.status()
        pending = status.get("pendingServiceStatus", {}).get("rayClusterName")
        return status.get("serviceStatus") == "Running" and not pending
