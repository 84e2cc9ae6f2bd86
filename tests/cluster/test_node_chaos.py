"""A few cycles of `python -m tests.chaos`: planes that are killed leave nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from chaos.cycle import PODS_FILE, Cycle
from chaos.traces import Sockets, traces

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plane_that_is_killed_at_random_leaves_nothing_behind(tmp_path: Path, seed: int) -> None:
    cycle = Cycle(tmp_path / "plane", Random(seed))
    assert cycle.run() == [], "\n".join(cycle.story)


def test_the_search_sees_every_sort_of_trace(tmp_path: Path) -> None:
    """Of a plane that runs: otherwise the search would find nothing also where something is."""
    directory = tmp_path / "plane"
    cycle = Cycle(directory, Random(0))
    try:
        cycle._manta("up")
        cycle._manta("apply", "-f", str(PODS_FILE))
        deadline = time.monotonic() + 30
        wanted = {"process", "interface", "route", "packet", "cgroup", "directory"}
        while (missing := wanted - sorts(directory)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert missing == set()
        cycle.sockets = Sockets.of(list(cycle._parts()))
        assert list(cycle.sockets.still_listening())
    finally:
        cycle._manta("down", "--purge")
    assert sorts(directory) == set()


def sorts(directory: Path) -> set[str]:
    return {trace.split()[0] for trace in traces(directory, forgotten=True)}
