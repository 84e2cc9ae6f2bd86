"""`manta up --isolation none`: one Ray cluster with its workers where no namespaces are allowed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import ROOT, Machine

QUICKSTART = ROOT / "examples/quickstart.yaml"
TASKS = (
    "import ray, json; ray.init(logging_level='error');"
    "f = ray.remote(num_cpus=1, scheduling_strategy='SPREAD')(lambda: __import__('time').sleep(1) or"
    " ray.util.get_node_ip_address());"
    "print(json.dumps(sorted(set(ray.get([f.remote() for _ in range(6)])))))"
)

pytestmark = pytest.mark.embedded_only(reason="`--isolation none` is of `manta up`")


def taken_ports() -> list[int]:
    """Ports of a Ray head that another program of this machine has."""
    taken = []
    for port in (6379, 8265, 10001):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                taken.append(port)
    return taken


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Machine]:
    if taken := taken_ports():
        pytest.skip(f"without isolation a head needs ports {taken}, which another program has")
    made = Machine(tmp_path / "plane")
    try:
        yield made
    finally:
        made.manta("down", "--purge")


def test_a_head_and_a_worker_share_the_machines_network(plain: Machine) -> None:
    plain.manta("up", "--isolation", "none", "--cpus", "4", "--with", str(QUICKSTART))
    pods = plain.list("pods", "ray.io/cluster=quickstart")
    assert {pod["metadata"]["labels"]["ray.io/node-type"] for pod in pods} == {"head", "worker"}
    answer = plain.exec("svc/quickstart-head-svc", "python", "-c", TASKS)
    assert json.loads(answer.splitlines()[-1]) == sorted(pod["status"]["podIP"] for pod in pods)
