"""What planes leave behind when they are killed, or when their directory is removed under them.

`manta doctor` names it; `manta up` and `manta down` remove it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from manta.cli.planeprocess import plane_processes, read_record, record_path, start_ticks, stop

_PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was removed."""

    processes: int = 0
    interfaces: int = 0
    cgroups: tuple[str, ...] = ()
    """Groups that could not be removed: something still runs in them."""
    running: tuple[int, ...] = ()
    """Processes of Pods that did not end although they were killed."""
    graceful: bool | None = None
    """Did the plane end by itself? None: none ran."""
    pid: int = 0


def clear(directory: Path, *, purge: bool) -> Cleared:
    """End the plane of `directory` and take away everything that is left of it."""
    from manta.localplane.node.cleanup import remove_everything

    record = read_record(directory)
    graceful = stop(record) if record else None
    stray = end_plane_processes(directory)
    removed = remove_everything(directory / "node", purge=purge)
    record_path(directory).unlink(missing_ok=True)
    (directory / "kubeconfig").unlink(missing_ok=True)
    return Cleared(
        stray + len(removed.processes),
        len(removed.interfaces),
        removed.cgroups,
        removed.running,
        graceful,
        record.pid if record else 0,
    )


def end_plane_processes(directory: Path) -> int:
    """Planes that wrote no record (yet), and operators whose plane was killed: TERM, then KILL."""
    waiting = {pid: start_ticks(pid) for pid in plane_processes(directory)}
    found = len(waiting)
    for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, 2.0)):
        for pid in waiting:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while waiting and time.monotonic() < deadline:
            waiting = {pid: born for pid, born in waiting.items() if start_ticks(pid) == born}
            time.sleep(0.02)
    return found


def left_processes(directory: Path) -> list[int]:
    """Of the plane itself and of its Pods, also when its directory is gone."""
    from manta.localplane.node.cgroups import members_of
    from manta.localplane.node.cleanup import marked_processes
    from manta.localplane.node.planeid import NODE_DIRECTORY

    node = directory / NODE_DIRECTORY
    return sorted({*plane_processes(directory), *marked_processes(node), *members_of(node)})


def lost_directories() -> list[Path]:
    """State directories of planes that were removed without `manta down`, while the kernel still
    keeps their bridge."""
    from manta.localplane.node.ranges import lost_planes

    return [node.parent for node in lost_planes()]


def clear_lost_planes() -> list[Path]:
    """Remove what is left of planes whose record is gone."""
    from manta.localplane.node.ranges import lost_planes

    lost = lost_planes()
    for node in lost:
        from manta.localplane.node.cleanup import remove_lost

        end_plane_processes(node.parent)
        remove_lost(node)
    return [node.parent for node in lost]


def clear_before_start(directory: Path) -> None:
    """A plane that starts anew in `directory` must not meet processes or a bridge of an earlier one
    whose state is gone."""
    for lost in clear_lost_planes():
        print(f"removed what was left of the plane in {lost}, whose record is gone")
    if not (directory / "node" / "network.json").exists():
        cleared = clear(directory, purge=False)
        if cleared.processes or cleared.interfaces:
            print(f"removed what an earlier plane had left of {directory}")
