"""Idle GPU-hours as `manta usage` counts them, beside the truth: clusters with fake GPUs on `manta up`.

The heads are small programs that answer as Ray's dashboard does. Each says by a schedule of its own that somebody
uses the cluster, or nobody, and writes down when: that is the truth. It takes ten minutes and hardly any CPU.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.operators import tell
from benchmarks.planes import manta, plane_directory
from manta.api.times import parse_time

SECONDS = 600
GPUS = (1, 2, 1, 2, 1, 1)
AFTERWARDS = 60
"""All clusters are in use again when the figures are read: idle hours do not depend on when that is."""
LIMIT = 40
"""Of idleness, in seconds; the operator asks 25 times as often. No idle period lasts so long."""
HEAD = """
import http.server, json, random, sys, threading, time
state = {"used": True, "ended": 0.0}
def rows():
    found = {"total": 0, "num_after_truncation": 0, "num_filtered": 0, "result": []}
    return {"result": True, "data": {"result": found | {"partial_failure_warning": ""}}}
def change(used):
    state["used"], now = used, time.time()
    state["ended"] = state["ended"] if used else now
    print(json.dumps([now, used]), flush=True)
def live():
    chance, end = random.Random(SEED), time.time() + SECONDS
    change(True); time.sleep(60)
    while time.time() < end:
        change(False); time.sleep(chance.uniform(10, 35))
        change(True); time.sleep(chance.uniform(10, 60))
class Dashboard(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        said = "ACTIVE" if state["used"] else "INACTIVE"
        driver = {"driver": {"is_active": said, "reason": "a test", "last_activity_at": state["ended"]}}
        body = json.dumps(driver if "component" in self.path else rows()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
threading.Thread(target=live, daemon=True).start()
http.server.ThreadingHTTPServer(("", 8265), Dashboard).serve_forever()
"""


def a_cluster(number: int, gpus: int, seconds: float) -> dict[str, Any]:
    head = HEAD.replace("SEED", str(number)).replace("SECONDS", str(seconds))
    limits = {"cpu": "100m", "memory": "256Mi", "nvidia.com/gpu": str(gpus)}
    container = {
        "name": "ray-head",
        "image": "python",
        "command": ["python3", "-u", "-c", head],
        "resources": {"limits": limits},
        "readinessProbe": {"tcpSocket": {"port": 8265}, "periodSeconds": 1},
        "livenessProbe": {"tcpSocket": {"port": 8265}},
    }
    marks = {
        "manta.ray.io/idle-suspend-after": f"{LIMIT}s",
        "ray.io/overwrite-container-cmd": "true",
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": f"c-{number}", "annotations": marks},
        "spec": {
            "rayVersion": "2.60.0",
            "headGroupSpec": {
                "template": {
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}
                }
            },
        },
    }


@dataclass(frozen=True)
class Hours:
    idle: float
    used: float


def truth(log: str, ready: float, until: float, gpus: int) -> Hours:
    """By what the head wrote down: from when it was ready until the figures were read."""
    changes = [json.loads(line) for line in log.splitlines() if line.startswith("[")]
    ends = [at for at, _ in changes[1:]] + [until]
    hours = {True: 0.0, False: 0.0}
    for (begin, used), end in zip(changes, ends, strict=True):
        hours[used] += max(0.0, min(end, until) - max(begin, ready)) * gpus / 3600
    return Hours(hours[False], hours[True])


def ready_at(directory: Path, pod: str) -> float:
    found = json.loads(manta(directory, "get", "pod", pod, "-o", "json"))
    [ready] = [one for one in found["status"]["conditions"] if one["type"] == "Ready"]
    return float(parse_time(ready["lastTransitionTime"]).timestamp())


def counted(directory: Path) -> tuple[float, dict[str, Hours]]:
    before = time.time()
    found = json.loads(manta(directory, "usage", "--since", "1d", "-o", "json"))
    hours = {one["name"]: Hours(one["idleGpuHours"], one["usedGpuHours"]) for one in found}
    return (before + time.time()) / 2, hours


def wait_until_all_are_ready(directory: Path) -> None:
    states: list[str] = []
    for _ in range(180):
        items = json.loads(manta(directory, "get", "rayclusters", "-o", "json"))["items"]
        states = [one.get("status", {}).get("state", "") for one in items]
        if states == ["ready"] * len(GPUS):
            return
        time.sleep(1)
    raise RuntimeError(f"the clusters are not ready: {states}")


def measure(directory: Path, seconds: float) -> None:
    documents = [a_cluster(number, gpus, seconds) for number, gpus in enumerate(GPUS)]
    file = directory / "clusters.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    manta(directory, "apply", "-f", str(file))
    wait_until_all_are_ready(directory)
    time.sleep(seconds + AFTERWARDS)
    at, found = counted(directory)
    real: dict[str, Hours] = {}
    for number, gpus in enumerate(GPUS):
        [pod] = json.loads(
            manta(directory, "get", "pods", "-l", f"ray.io/cluster=c-{number}", "-o", "json")
        )["items"]
        name = pod["metadata"]["name"]
        log = manta(directory, "logs", name)
        real[f"default/c-{number}"] = truth(log, ready_at(directory, name), at, gpus)
    idle = [(found[one].idle, real[one].idle) for one in real]
    used = [(found[one].used, real[one].used) for one in real]
    tell(
        clusters=len(GPUS),
        fake_gpus=sum(GPUS),
        seconds=seconds,
        idle_gpu_hours=round(sum(one for one, _ in idle), 4),
        idle_gpu_hours_in_truth=round(sum(one for _, one in idle), 4),
        idle_off_percent=_off(idle),
        used_off_percent=_off(used),
        idle_off_percent_by_cluster=[_off([one]) for one in idle],
        goal="idle_off_percent at most 1",
    )


def _off(pairs: list[tuple[float, float]]) -> float:
    wanted = sum(one for _, one in pairs)
    return round(100 * (sum(one for one, _ in pairs) - wanted) / wanted, 2)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with plane_directory() as directory:
        manta(directory, "up", "--cpus", "8", "--fake-gpus", str(sum(GPUS)))
        measure(directory, seconds)


if __name__ == "__main__":
    main()
