"""The list of planes is read from where nobody else can write, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manta.localplane.node.host import plane_register


@pytest.fixture
def instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plane_register, "DIRECTORY", Path("/proc/no/such/place"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "manta-planes"


def refuse() -> None:
    with (
        pytest.raises(plane_register.UntrustedRegister, match="so it is not used"),
        plane_register.locked(),
    ):
        pass


def test_a_list_of_planes_that_others_can_write_is_not_used(instead: Path) -> None:
    instead.mkdir()
    instead.chmod(0o777)
    refuse()
    instead.chmod(0o700)
    with plane_register.locked() as register:
        assert register.directories() == []


def test_a_list_of_planes_behind_a_link_is_not_used(instead: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    instead.symlink_to(tmp_path / "elsewhere")
    refuse()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give away a directory")
def test_a_list_of_planes_of_somebody_else_is_not_used(instead: Path) -> None:
    instead.mkdir(mode=0o700)
    os.chown(instead, 65534, 65534)
    refuse()
