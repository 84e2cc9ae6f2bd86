"""The hook that drains a worker, run as it is."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

from manta.manifests.draining import add_drain
from support.raycluster import ray_cluster
from support.raycluster_scenario import decode


def hook() -> str:
    container: dict[str, Any] = {}
    add_drain(decode(ray_cluster(annotations={"manta.ray.io/drain-seconds": "60"})), {}, container)
    interpreter, flag, script = container["lifecycle"]["preStop"]["exec"]["command"]
    assert (interpreter, flag) == ("python", "-c")
    return str(script)


def test_a_worker_without_a_head_does_not_wait_for_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    place = {"FQ_RAY_IP": "127.0.0.1", "RAY_PORT": str(port), "RAY_CLOUD_INSTANCE_ID": "p"}
    ended = subprocess.run(
        [sys.executable, "-c", hook()], env=place, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"no head at 127.0.0.1:{port}" in ended.stdout


def test_a_worker_with_a_head_asks_ray() -> None:
    """Which is not installed here: the hook comes as far as that."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = {"FQ_RAY_IP": "127.0.0.1", "RAY_PORT": str(server.getsockname()[1])}
        ended = subprocess.run(
            [sys.executable, "-c", hook()], env=place, capture_output=True, text=True, check=False
        )
    assert "No module named 'ray'" in ended.stderr
