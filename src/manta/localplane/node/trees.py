"""Remove a directory with everything in it, also what forbids its own removal.

The kernel makes the work directory of an overlay with no permissions at all; root does not notice, an
ordinary user must first allow himself to look into it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def remove_tree(directory: Path) -> None:
    """What cannot be removed is left; who must know looks whether the directory is still there.

    A link in its place is left alone: it may have been laid by another, to a place that is not ours.
    """
    if directory.is_symlink():
        return
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        _allow(directory)
        shutil.rmtree(directory, ignore_errors=True)


def _allow(directory: Path) -> None:
    """Top down: a directory must be open before those in it are found. Links are not followed."""
    for place, inner, _ in os.walk(directory):
        for name in inner:
            path = Path(place, name)
            with suppress(OSError):
                if not path.is_symlink() and path.lstat().st_mode & 0o700 != 0o700:
                    path.chmod(0o700)
