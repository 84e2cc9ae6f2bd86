"""The directory of a plane: it holds the keys of the cluster's administrator, so it is its owner's alone."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_OURS = ("pki", "start.lock", "lock", "kubeconfig")
"""A directory with one of these was a plane's before."""


def make_private_directory(directory: Path) -> None:
    """Make it, and take away everybody else's access to it (mode 0700).

    Raises PermissionError for a directory with other files in it that others may look into: changing its
    mode could break what they use it for.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & 0o077:
        return
    names = os.listdir(directory)  # noqa: PTH208 - names, not paths
    if names and not any(name in names for name in _OURS):
        raise PermissionError(
            errno.EPERM,
            f"it holds other files, and others may look into it (mode {mode:04o}); name an empty"
            f" directory, or run `chmod 700 {directory}` first",
        )
    directory.chmod(0o700)
