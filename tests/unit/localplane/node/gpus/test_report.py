from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manta.cli.checks.finding import Level
from manta.cli.checks.gpus import check_gpus, kill_leaks
from manta.localplane.node.gpus.fake import FakeGpus
from manta.localplane.node.gpus.machine_gpus import FAKE_RECORD
from manta.localplane.node.host import wire
from manta.localplane.node.host.plane_id import NODE_DIRECTORY
from manta.localplane.node.sandbox.processes import PLANE_VARIABLE, POD_VARIABLE

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes that hold the fake GPU of the plane in `tmp_path`."""
    node = tmp_path / NODE_DIRECTORY
    node.mkdir()
    wire.write_record(node / FAKE_RECORD, {"fake": 1})
    (gpu,) = FakeGpus(1, node).gpus
    started = []

    def make(**marks: str) -> subprocess.Popen[bytes]:
        env = {"CUDA_VISIBLE_DEVICES": gpu.id, **marks}
        started.append(subprocess.Popen(["/bin/sleep", "1000"], env=env))
        return started[-1]

    yield make
    for process in started:
        process.kill()
        process.wait()


def asked(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(dir=tmp_path)


def mark(tmp_path: Path) -> dict[str, str]:
    return {PLANE_VARIABLE: str((tmp_path / NODE_DIRECTORY).resolve()), POD_VARIABLE: "uid-7"}


def test_a_process_that_a_pod_left_on_a_gpu_is_named_with_pid_and_time(
    tmp_path: Path, start: Start
) -> None:
    left = start(**mark(tmp_path))
    finding = check_gpus(asked(tmp_path))
    assert finding.level is Level.WARN
    assert f"process {left.pid} of Pod uid-7, which is gone, holds memory since 2" in finding.found


def test_a_process_of_no_pod_is_named_and_is_no_problem(tmp_path: Path, start: Start) -> None:
    """A desktop, or another user's job."""
    foreign = start()
    finding = check_gpus(asked(tmp_path))
    assert finding.level is Level.OK
    assert str(foreign.pid) in finding.found


def test_the_fix_ends_what_pods_of_this_plane_left_and_nothing_else(
    tmp_path: Path, start: Start
) -> None:
    ours, of_nobody = start(**mark(tmp_path)), start()
    of_another = start(**{**mark(tmp_path), PLANE_VARIABLE: "/another/node"})
    assert [one.pid for one in kill_leaks(asked(tmp_path))] == [ours.pid]
    assert ours.wait(10) == -9
    assert (of_nobody.poll(), of_another.poll()) == (None, None)


def test_a_machine_without_gpus_has_no_finding(tmp_path: Path) -> None:
    assert check_gpus(asked(tmp_path)).level is Level.OK
