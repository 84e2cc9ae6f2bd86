"""What is taken away of a plane that is gone, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manta.cli.plane.cleanup import remove_lost_planes
from manta.localplane.node import cleanup
from manta.localplane.node.host import plane_register
from manta.localplane.node.net import address_ranges


@pytest.mark.skipif(os.geteuid() != 0, reason="only planes of root are listed")
def test_clearing_a_lost_plane_keeps_volumes_that_came_back_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Say, of a disk that was not mounted when we looked."""
    node = tmp_path / "plane" / "node"
    volume = node / "claims" / "data"
    volume.mkdir(parents=True)
    monkeypatch.setattr(plane_register, "DIRECTORY", tmp_path / "run")
    monkeypatch.setattr(cleanup, "_remove_network", lambda _: [])
    monkeypatch.setattr(address_ranges, "lost_planes", lambda: [node])
    with plane_register.locked() as register:
        register.add(node)
    assert remove_lost_planes() == [node.parent]
    assert volume.exists()
    with plane_register.locked() as register:
        assert register.directories() == []
