"""A few cycles of `python -m tests.chaos`: planes that are killed leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from chaos.cycle import Cycle

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plane_that_is_killed_at_random_leaves_nothing_behind(tmp_path: Path, seed: int) -> None:
    cycle = Cycle(tmp_path / "plane", Random(seed))
    assert cycle.run() == [], "\n".join(cycle.story)
