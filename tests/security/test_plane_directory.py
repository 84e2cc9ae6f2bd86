"""The directory of a plane holds the administrator's keys: nobody else looks into it."""

from __future__ import annotations

import stat
from argparse import Namespace
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from manta.cli.plane.foreground import node_options
from manta.localplane.node.host.plane_id import plane_of
from manta.localplane.node.net.address_ranges import Ranges
from manta.localplane.plane import Plane, PlaneOptions
from manta.localplane.private_files import make_private_directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("content", [[], ["pki"], ["start.lock", "else"]])
def test_an_open_directory_is_closed_to_others(tmp_path: Path, content: list[str]) -> None:
    """X19: an empty one, or one that was a plane's before."""
    directory = tmp_path / "plane"
    directory.mkdir(mode=0o755)
    for name in content:
        (directory / name).touch()
    make_private_directory(directory)
    assert mode(directory) == 0o700


def test_an_open_directory_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """X19: `--dir /tmp` must not close /tmp."""
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared/file").touch()
    with pytest.raises(PermissionError, match=r"mode 0755.*chmod 700"):
        make_private_directory(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o755


def test_a_table_of_images_may_be_written_before_the_first_start(tmp_path: Path) -> None:
    """The guide names ~/.manta/node/images.yaml; `mkdir -p` makes it readable for others."""
    directory = tmp_path / "plane"
    (directory / "node").mkdir(parents=True, mode=0o755)
    directory.chmod(0o755)
    with pytest.raises(PermissionError):
        make_private_directory(directory)
    (directory / "node/images.yaml").touch()
    make_private_directory(directory)
    assert mode(directory) == 0o700


def test_a_closed_directory_with_other_files_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(0o700)
    make_private_directory(tmp_path)


async def test_a_plane_in_an_open_directory_closes_it(tmp_path: Path) -> None:
    """X19."""
    directory = tmp_path / "plane"
    directory.mkdir(mode=0o755)
    async with Plane(PlaneOptions(dir=directory, memory=True, controllers=False)):
        assert mode(directory) == 0o700


def test_the_agent_of_manta_up_knows_the_planes_directory(tmp_path: Path) -> None:
    """X13: it hides all of it from Pods, not only its own part."""
    given = {"cpus": None, "memory": None, "isolation": "auto", "gpus": "auto", "fake_gpus": 0}
    args = Namespace(dir=tmp_path, nodes=1, **given)
    made = {"options": PlaneOptions(dir=tmp_path), "port": 1, "app": SimpleNamespace(wake=None)}
    plane = cast("Any", SimpleNamespace(**made))
    ranges = Ranges(IPv4Network("10.1.0.0/16"), IPv4Network("10.2.0.0/16"))
    options = node_options(plane, args, ranges)
    assert options.plane == tmp_path
    assert plane_of(options.dir) == tmp_path
