from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from manta.localplane.node.host.confined_files import remove_tree

NOBODY = 54321


def a_tree(directory: Path) -> Path:
    """A tree as an overlay leaves it: with directories without permissions."""
    inner = directory / "tree" / "scratch" / "work"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    inner.chmod(0)
    return directory / "tree"


def test_a_tree_is_removed_and_one_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    remove_tree(tree)
    assert not tree.exists()
    remove_tree(tree)


def test_a_tree_that_is_nested_too_deeply_for_a_recursion_is_removed(tmp_path: Path) -> None:
    """A Pod makes one with `mkdir` and `cd` in a loop; its directory would stay for ever."""
    (tmp_path / "tree").mkdir()
    here = os.open(tmp_path / "tree", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("file", dir_fd=here)
        for name in ("inner", "other"):
            os.mkdir(name, dir_fd=here)
        below = os.open("inner", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        remove_tree(tmp_path / "tree")
        assert not (tmp_path / "tree").exists()
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "tree")], check=True)


def test_a_link_that_leads_elsewhere_is_removed_and_its_goal_is_not(tmp_path: Path) -> None:
    (tmp_path / "goal").mkdir(mode=0o500)
    tree = a_tree(tmp_path)
    (tree / "link").symlink_to(tmp_path / "goal")
    remove_tree(tree)
    assert (tmp_path / "goal").stat().st_mode & 0o777 == 0o500


def test_a_link_in_the_place_of_the_tree_is_left_alone(tmp_path: Path) -> None:
    victim = tmp_path / "victim" / "inner"
    victim.mkdir(parents=True)
    victim.chmod(0o500)
    (tmp_path / "tree").symlink_to(tmp_path / "victim")
    remove_tree(tmp_path / "tree")
    assert victim.stat().st_mode & 0o777 == 0o500


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to become somebody else")
def test_an_ordinary_user_removes_what_he_may_not_look_into(tmp_path: Path) -> None:
    for directory in (tmp_path, *tmp_path.parents):
        if directory.owner() == "root" and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o711)
    mine = tmp_path / "mine"
    mine.mkdir()
    os.chown(mine, NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        tree = a_tree(mine)
        remove_tree(tree)
        os._exit(1 if tree.exists() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
