"""Stop planes, and remove what is left of killed planes and of planes whose directory was deleted.

`manta doctor` reports it; `manta up` and `manta down` remove it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from manta.cli.plane.process import plane_processes, read_record, record_path, start_ticks, stop

_TERM_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Removed:
    """What `remove_plane` removed."""

    processes: int = 0
    interfaces: int = 0
    cgroups: tuple[str, ...] = ()
    """Groups that could not be removed, because processes run in them."""
    running: tuple[int, ...] = ()
    """Killed processes of Pods that did not end."""
    graceful: bool | None = None
    """Whether the plane ended after SIGTERM; None: none ran."""
    pid: int = 0


def remove_plane(directory: Path, *, purge: bool) -> Removed:
    """Stop the plane of `directory`, and remove its processes, interfaces and cgroups."""
    from manta.localplane.node.cleanup import remove_everything

    record = read_record(directory)
    graceful = stop(record) if record else None
    stray = end_plane_processes(directory)
    removed = remove_everything(directory / "node", purge=purge)
    record_path(directory).unlink(missing_ok=True)
    (directory / "kubeconfig").unlink(missing_ok=True)
    return Removed(
        stray + len(removed.processes),
        len(removed.interfaces),
        removed.cgroups,
        removed.running,
        graceful,
        record.pid if record else 0,
    )


def end_plane_processes(directory: Path) -> int:
    """Stop planes without a record, and operators whose plane was killed. Returns their number."""
    waiting = {pid: start_ticks(pid) for pid in plane_processes(directory)}
    found = len(waiting)
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, 2.0)):
        for pid in waiting:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while waiting and time.monotonic() < deadline:
            waiting = {pid: born for pid, born in waiting.items() if start_ticks(pid) == born}
            time.sleep(0.02)
    return found


def left_processes(directory: Path) -> list[int]:
    """Processes of the plane and of its Pods, even if its directory was deleted."""
    from manta.localplane.node.cleanup import marked_processes
    from manta.localplane.node.host.cgroups import members_of
    from manta.localplane.node.host.plane_id import NODE_DIRECTORY

    node = directory / NODE_DIRECTORY
    return sorted({*plane_processes(directory), *marked_processes(node), *members_of(node)})


def lost_directories() -> list[Path]:
    """Deleted directories of planes that were not stopped: their bridge still exists."""
    from manta.localplane.node.net.address_ranges import lost_planes

    return [node.parent for node in lost_planes()]


def remove_lost_planes() -> list[Path]:
    """Remove the rest of planes whose directory was deleted. Returns the directories."""
    from manta.localplane.node.net.address_ranges import lost_planes

    lost = lost_planes()
    for node in lost:
        from manta.localplane.node.cleanup import remove_lost

        end_plane_processes(node.parent)
        remove_lost(node)
    return [node.parent for node in lost]


def remove_before_start(directory: Path) -> None:
    """Remove processes and a bridge of earlier planes without state, before a plane starts."""
    for lost in remove_lost_planes():
        print(f"removed the rest of the plane in {lost}, whose record is missing")
    if not (directory / "node" / "network.json").exists():
        removed = remove_plane(directory, purge=False)
        if removed.processes or removed.interfaces:
            print(f"removed the rest of an earlier plane in {directory}")
