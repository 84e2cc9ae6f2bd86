"""Pods of ordinary users: the same life inside a user namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from manta.localplane.node.cleanup import marked_processes
from support.nodeplane import node_plane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to become somebody else"),
]

NOBODY_SPECIAL = 54321
PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"
READY = {"httpGet": {"port": 8000}, "periodSeconds": 1}
SERVE = "touch /etc/mine /opt/mine /mine && exec python3 -m http.server 8000"

AS_USER = """
import asyncio, os, sys
from pathlib import Path
from support.nodeplane import node_plane
from test_node_rootless import READY, SERVE, live

async def main():
    async with node_plane(Path(sys.argv[1])) as node:
        await live(node)
        print("lived as", os.geteuid())

asyncio.run(main())
"""


async def live(node) -> None:
    """A Pod that writes where only root may, serves, is probed, entered, adopted and removed."""
    assert node.agent._machine.userns
    await node.run("pod", "sh", "-c", SERVE, container={"readinessProbe": READY})
    await node.until_ready()
    assert (await node.execute("hostname")).strip() == "pod"
    assert (await node.execute("id", "-u")).strip() == "0"
    reader, writer = await node.agent.connector.dial("default", "pod", 8000)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.readline()).endswith(b"200 OK\r\n")
    writer.close()
    await node.restart_agent()
    assert (await node.execute("hostname")).strip() == "pod"
    await node.until_ready()
    await node.delete(grace=0)
    await node.until_gone()


async def test_pods_live_in_a_user_namespace(tmp_path: Path) -> None:
    async with node_plane(tmp_path, rootless=True) as node:
        await live(node)
    assert marked_processes(tmp_path) == []


async def test_pods_are_made_again_when_their_network_was_lost(tmp_path: Path) -> None:
    async with node_plane(tmp_path, rootless=True) as node:
        await node.run("pod", "sleep", "1000")
        before = await node.until_ready()
        os.kill(node.agent._machine.launcher.pid, 9)
        await node.until(
            lambda pod: (
                pod["status"]["containerStatuses"][0]["restartCount"] == 1
                and "running" in pod["status"]["containerStatuses"][0]["state"]
            )
        )
        assert before["metadata"]["uid"] == (await node.get())["metadata"]["uid"]
        assert (await node.execute("hostname")).strip() == "pod"


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that an ordinary user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as made:
        shutil.chown(made, NOBODY_SPECIAL, NOBODY_SPECIAL)
        yield Path(made)


def test_an_ordinary_user_runs_pods(home: Path) -> None:
    if not Path(PYTHON).exists():
        pytest.skip(f"no {PYTHON}: another user cannot read the Python of this test")
    tests, site = Path(__file__).parents[1], Path(pytest.__file__).parents[1]
    paths = [tests, tests / "cluster", tests.parent / "src", site]
    run = subprocess.run(
        [PYTHON, "-c", AS_USER, str(home / "plane")],
        user=NOBODY_SPECIAL,
        group=NOBODY_SPECIAL,
        extra_groups=[],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ":".join(map(str, paths)),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout == f"lived as {NOBODY_SPECIAL}\n", run.stderr
    assert marked_processes(home / "plane") == []
