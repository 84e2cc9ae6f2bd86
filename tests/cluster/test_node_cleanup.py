"""Whatever is killed, `remove_everything` leaves the machine as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from manta.localplane.node.cleanup import marked_processes, remove_everything
from manta.localplane.node.host.plane_id import interface_prefix
from support.nodeplane import node_plane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]

PLANE = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from support.nodeplane import node_plane

async def main():
    async with node_plane(Path(sys.argv[1])) as node:
        await node.run("one", "bash", "-c", "trap '' TERM; sleep 1000 & sleep 1000")
        await node.run("two", "sleep", "1000")
        await node.until_ready("one")
        await node.until_ready("two")
        print("ready", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def left_over(directory: Path) -> list[str]:
    """Everything of a plane that the kernel still knows."""
    prefix = interface_prefix(directory)
    interfaces = [entry.name for entry in Path("/sys/class/net").iterdir()]
    return [
        *(f"process {pid}" for pid in marked_processes(directory)),
        *(f"interface {name}" for name in interfaces if name.startswith(prefix)),
        *(f"mount {line}" for line in mounts() if str(directory) in line),
        *(f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"*/**/manta-{prefix[2:]}")),
    ]


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


@pytest.fixture
def killed_plane(tmp_path: Path) -> Path:
    """A plane in a process of its own that was killed while two Pods ran."""
    tests = Path(__file__).parents[1]
    directory = tmp_path / "plane"
    with subprocess.Popen(
        [sys.executable, "-c", PLANE, str(directory), str(tests)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    return directory


def test_pods_outlive_a_killed_agent_until_they_are_removed(killed_plane: Path) -> None:
    before = left_over(killed_plane)
    assert sum(line.startswith("process") for line in before) >= 2
    assert sum(line.startswith("interface") for line in before) == 3
    removed = remove_everything(killed_plane, purge=True)
    assert left_over(killed_plane) == []
    assert len(removed.interfaces) >= 1
    assert not (killed_plane / "pods").exists()


def test_removing_twice_is_harmless(killed_plane: Path) -> None:
    remove_everything(killed_plane)
    again = remove_everything(killed_plane, purge=True)
    assert (again.processes, again.interfaces) == ((), ())


async def test_an_orderly_end_leaves_pods_running_and_removal_takes_them(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        assert left_over(tmp_path)
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_killed_first_nothing_stays(tmp_path: Path, seed: int) -> None:
    """The plane, its launcher, a Pod's init or a container's process: any of them, in any order."""
    random = Random(seed)
    directory = tmp_path / "plane"
    tests = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", PLANE, str(directory), str(tests)], stdout=subprocess.PIPE
    ) as plane:
        assert plane.stdout is not None
        assert plane.stdout.readline() == b"ready\n"
        helpers = marked_processes(directory)
        children = [pid for helper in helpers for pid in children_of(helper)]
        victims = random.sample(sorted({plane.pid, *helpers, *children}), 3)
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        plane.kill()
    remove_everything(directory, purge=True)
    assert left_over(directory) == []
    assert not [pid for pid in children if is_alive(pid)]


def is_alive(pid: int) -> bool:
    """An ended process that its parent has not noticed yet does not count."""
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
