"""How the processes of a plane are found: by marks on their command lines or in their environments."""

from __future__ import annotations

import os
from pathlib import Path

from manta.localplane.node.host import pid_namespace

PLANE_VARIABLE = "MANTA_PLANE"
POD_VARIABLE = "MANTA_POD"
"""Set in the environment of containers without namespaces, to find their processes."""
MARK = "manta-node"
"""With the plane's directory, on the command lines of the launcher, the inits and the egress keeper."""


def find_processes(file: str, mark: bytes) -> list[int]:
    """The pids of our processes with `mark` in their /proc file (`cmdline` or `environ`)."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            content = Path(entry.path, file).read_bytes()
        except OSError:
            continue
        if mark in b"\0" + content and pid_namespace.is_ours(int(entry.name)):
            found.append(int(entry.name))
    return sorted(found)
