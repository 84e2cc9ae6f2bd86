"""A plane in a container keeps its processes, whatever its directory is called."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manta.cli.plane.process import plane_processes
from manta.localplane.node.cleanup import marked_processes
from manta.localplane.node.host.pid_namespace import is_first_below, is_here, is_ours, numbers_in
from manta.localplane.node.sandbox.processes import MARK, PLANE_VARIABLE

WAIT = "import sys; sys.stdin.read()"
CHILD = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
BELOW = (
    "import subprocess, sys; from manta.localplane.node.host import libc;"
    "libc.unshare(libc.CLONE_NEWPID); sys.exit(subprocess.call(sys.argv[1:]))"
)
PYTHON = (sys.executable, "-c")

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a pid namespace")


@contextmanager
def running(*command: str, marked: str, **variables: str) -> Iterator[int]:
    """The pid in our namespace of the process with exactly this command line."""
    environment = {**os.environ, **variables}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
        yield until_there(marked)
        process.kill()


def until_there(words: str) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "cmdline").read_text() == words:
                    return int(entry.name)
            except OSError:
                continue
    raise AssertionError(f"no process {words!r}")


def line(*words: str) -> str:
    return "".join(f"{word}\0" for word in words)


def helper(directory: Path) -> tuple[str, ...]:
    return (*PYTHON, WAIT, MARK, str(directory), "root")


def plane(directory: Path) -> tuple[str, ...]:
    """A process with the same command line that does something else."""
    words = ("-m", "manta.cli.main", "up", "--foreground", "--dir", str(directory))
    return (*PYTHON, WAIT, *words)


def test_helpers_and_planes_of_our_own_namespace_are_found(tmp_path: Path) -> None:
    command = helper(tmp_path)
    with running(*command, marked=line(*command)) as pid:
        assert marked_processes(tmp_path) == [pid]
    command = plane(tmp_path)
    with running(*command, marked=line(*command)) as pid:
        assert plane_processes(tmp_path) == [pid]


@root
def test_a_pods_init_is_found_in_its_namespace(tmp_path: Path) -> None:
    command = (*PYTHON, WAIT, MARK, str(tmp_path))
    outer = (*PYTHON, BELOW, *PYTHON, WAIT, MARK, str(tmp_path))
    with running(*outer, marked=line(*command)) as pid:
        assert pid in marked_processes(tmp_path)
        assert not is_here(pid)


@root
def test_the_helpers_of_a_plane_in_a_container_are_left_alone(tmp_path: Path) -> None:
    command = helper(tmp_path)
    with running(*PYTHON, BELOW, *PYTHON, CHILD, *command, marked=line(*command)) as pid:
        assert pid not in marked_processes(tmp_path)
        assert not is_ours(pid)


@root
def test_a_container_without_namespaces_of_such_a_plane_is_left_alone(tmp_path: Path) -> None:
    command = (*PYTHON, WAIT, str(tmp_path))
    inner = ("env", f"{PLANE_VARIABLE}={tmp_path}", *command)
    with running(*PYTHON, BELOW, *PYTHON, CHILD, *inner, marked=line(*command)) as pid:
        assert pid not in marked_processes(tmp_path)


@root
def test_a_plane_in_a_container_is_left_alone(tmp_path: Path) -> None:
    command = plane(tmp_path)
    with running(*PYTHON, BELOW, *PYTHON, CHILD, *command, marked=line(*command)) as pid:
        assert pid not in plane_processes(tmp_path)


@pytest.mark.parametrize(
    ("numbers", "first"),
    [("7", False), ("7\t1", True), ("7\t2", False), ("7\t3\t1", False), ("7\t1\t1", False)],
)
def test_only_the_first_process_one_level_below_can_be_a_pods_init(
    numbers: str, first: bool
) -> None:
    status = f"Name:\tx\nNSpid:\t{numbers}\nThreads:\t1\n"
    assert is_first_below(numbers_in(status) or []) is first


def test_a_kernel_that_says_no_numbers_is_noticed() -> None:
    assert numbers_in("Name:\tx\n") is None


def test_a_process_that_has_gone_is_not_ours() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert not is_ours(gone.pid)
