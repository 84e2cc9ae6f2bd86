"""`manta up --history` as a user runs it, with a Pod that behaves as Ray does: kill -9, deletion, restart."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manta.api.ray import names
from manta.api.well_known import ANNOTATION_KEEP_VOLUME, ANNOTATION_POSTS_PORT
from support.history import NODE, RECORDED, SESSION

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]
SCRIPT = f"""
import http.server, os, threading, time, urllib.request
class Dashboard(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        groups = self.path == "/api/v0/placement_groups?detail=1&limit=10000"
        body = b'{{"data": "the groups"}}' if groups else b'{{"session_name": "{SESSION}"}}'
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
dashboard = http.server.ThreadingHTTPServer(("", 8265), Dashboard)
threading.Thread(target=dashboard.serve_forever, daemon=True).start()
logs = "/tmp/ray/{SESSION}/logs"
os.makedirs(logs + "/events")
open("/tmp/ray/{SESSION}/metrics_agent_port_{NODE}", "w").write("1")
open(logs + "/job-driver-sub-1.log", "w").write("the driver says hello\\n")
for line in open("/recorded", "rb"):
    urllib.request.urlopen("http://localhost:8084/v1/events", data=line)
print("posted", flush=True)
time.sleep(1000)
"""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-abc-head-x1",
        "labels": {names.LABEL_NODE_TYPE: "head"},
        "annotations": {
            ANNOTATION_KEEP_VOLUME: names.VOLUME_LOGS,
            ANNOTATION_POSTS_PORT: "8084",
            names.ANNOTATION_HISTORY: "rayjob/train/train-abc",
        },
    },
    "spec": {
        "volumes": [
            {"name": names.VOLUME_LOGS, "emptyDir": {}},
            {"name": "recorded", "hostPath": {"path": str(RECORDED)}},
        ],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "ray",
                "image": "busybox",
                "command": ["python3", "-c", SCRIPT],
                "volumeMounts": [
                    {"name": names.VOLUME_LOGS, "mountPath": "/tmp/ray"},
                    {"name": "recorded", "mountPath": "/recorded"},
                ],
            }
        ],
    },
}


class Plane:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, *words: str, code: int = 0, text: str = "") -> subprocess.CompletedProcess[str]:
        at = 2 if words[0] == "history" else 1
        command = [*words[:at], "--dir", str(self.directory), *words[at:]]
        environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
        environment["HOME"] = str(self.directory.parent)
        done = subprocess.run(
            [sys.executable, "-m", "manta.cli.main", *command], input=text, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def until(self, check: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 180
        while not check():
            assert time.monotonic() < deadline, (self.directory / "logs/plane.log").read_text()
            time.sleep(0.2)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(tmp_path / "one")
    try:
        yield made
    finally:
        made.run("down", "--purge")


def test_what_a_killed_pod_left_is_there_after_its_deletion_and_a_restart(plane: Plane) -> None:
    started = plane.run("up", "--history")
    assert dashboard_of(started.stderr) == [200, 401]
    plane.run("apply", "-f", "-", text=json.dumps(POD))
    name = POD["metadata"]["name"]  # type: ignore[index]
    plane.until(lambda: "posted" in plane.run("logs", name).stdout if _running(plane) else False)
    plane.until(lambda: list((plane.directory / "answers").glob("*/*/*placement_groups*")))
    for record in (plane.directory / "node/pods").glob("*/sandbox.json"):
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    plane.run("delete", "pod", name)
    plane.run("down")
    plane.run("up", "--history")
    plane.until(lambda: "train" in plane.run("history", "list").stdout)
    assert "ValueError: number seven" in plane.run("history", "errors", "rayjob/train").stdout
    assert plane.run("history", "logs", "train").stdout == "the driver says hello\n"
    fallen_back = plane.run("logs", "job/train")
    assert fallen_back.stdout == "the driver says hello\n"
    assert "this is from its history" in fallen_back.stderr
    assert list((plane.directory / "node/kept").iterdir()) == []
    [groups] = (plane.directory / "history").glob("sessions/*/*/*/*/answers/*placement_groups*/*")
    assert b"the groups" in gzip.decompress(groups.read_bytes())
    assert dashboard_of(plane.run("history", "open").stdout) == [200, 401]
    logs = (plane.directory / "logs").glob("*.log")
    assert not any("token=" in one.read_text() for one in logs)


def dashboard_of(text: str) -> list[int]:
    """The answers to a printed link, asked for twice."""
    link = next(word for word in text.split() if "/history/login?token=" in word)
    found = []
    for _ in range(2):
        try:
            with urllib.request.urlopen(link) as answer:
                found.append(answer.status)
        except urllib.error.HTTPError as error:
            found.append(error.code)
            error.close()
    return found


def _running(plane: Plane) -> bool:
    return "Running" in plane.run("get", "pods").stdout


def test_a_store_that_cannot_be_used_is_refused_at_once(plane: Plane) -> None:
    refused = plane.run("up", "--history", "ftp://x", code=2)
    assert "must start with file://" in refused.stderr
