"""Files and directories that only their owner may read: those of a plane have the admin's keys."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_PLANE_FILES = ("pki", "start.lock", "lock", "kubeconfig")
"""A directory with one of these belongs to a plane."""
_WRITTEN_BEFORE = Path("node/images.yaml")
"""The file that users write, as the guide says, before the first start."""


def make_private_directory(directory: Path) -> None:
    """Create the directory, or set its mode to 0700.

    Raises PermissionError for a directory that other users can read and that has files of others: a
    new mode could break their programs.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & 0o077:
        return
    names = os.listdir(directory)  # noqa: PTH208 - names, not paths
    if names and not _is_of_a_plane(directory, names):
        raise PermissionError(
            errno.EPERM,
            f"it holds other files, and others may look into it (mode {mode:04o}); name an empty"
            f" directory, or run `chmod 700 {directory}` first",
        )
    directory.chmod(0o700)


def _is_of_a_plane(directory: Path, names: list[str]) -> bool:
    if any(name in names for name in _PLANE_FILES):
        return True
    return names == [_WRITTEN_BEFORE.parts[0]] and (directory / _WRITTEN_BEFORE).is_file()


def write_private_file(path: Path, text: str) -> None:
    """Replace the file in one step, with mode 0600, and sync it."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
