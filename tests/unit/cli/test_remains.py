"""What is taken away of a plane that is gone, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manta.cli.remains import clear_lost_planes
from manta.localplane.node import cleanup, planeregister, ranges


@pytest.mark.skipif(os.geteuid() != 0, reason="only planes of root are listed")
def test_clearing_a_lost_plane_keeps_volumes_that_came_back_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Say, of a disk that was not mounted when we looked."""
    node = tmp_path / "plane" / "node"
    volume = node / "claims" / "data"
    volume.mkdir(parents=True)
    monkeypatch.setattr(planeregister, "PLACE", tmp_path / "run")
    monkeypatch.setattr(cleanup, "_remove_network", lambda _: [])
    monkeypatch.setattr(ranges, "lost_planes", lambda: [node])
    with planeregister.locked() as register:
        register.add(node)
    assert clear_lost_planes() == [node.parent]
    assert volume.exists()
    with planeregister.locked() as register:
        assert register.directories() == []
