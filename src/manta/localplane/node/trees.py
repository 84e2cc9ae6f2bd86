"""Remove a directory with everything in it, also what forbids its own removal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from manta.localplane.node.beneath import Directory


def remove_tree(directory: Path) -> None:
    """What cannot be removed is left; who must know looks whether the directory is still there.

    A link in its place is left alone: it may have been laid by another, to a place that is not ours.
    """
    if directory.is_symlink():
        return
    with suppress(OSError), Directory.at(directory.parent.resolve()) as parent:
        parent.remove(directory.name)
