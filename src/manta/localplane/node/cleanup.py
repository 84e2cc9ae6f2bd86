"""Remove everything that a plane left on the machine, also when it was killed.

What to remove is found without any living agent: processes by the mark on their command line, network
interfaces and cgroups by the plane's prefix. Mounts live in the Pods' own namespaces and go with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manta.localplane.node import cgroups, planeregister
from manta.localplane.node.egress import close_way
from manta.localplane.node.network import planes_on_this_machine, remove_interfaces
from manta.localplane.node.planeid import interface_prefix
from manta.localplane.node.podruntime import pod_directories
from manta.localplane.node.processes import (
    MARK,
    PLANE_VARIABLE,
    end_sandbox,
    find_processes,
)
from manta.localplane.node.processtree import is_alive, kill
from manta.localplane.node.ranges import RECORD
from manta.localplane.node.sharednet import scratch_place
from manta.localplane.node.trees import remove_tree

_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Removed:
    processes: tuple[int, ...] = ()
    interfaces: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    """Groups that could not be removed: something still runs in them."""
    running: tuple[int, ...] = ()
    """Processes that did not end although they were killed."""


def remove_everything(directory: Path, *, purge: bool = False) -> Removed:
    """End all Pods of the plane in `directory`. With `purge`, forget its volumes too.

    Blocking. Call it only when no agent of this plane runs any more.
    """
    directory = directory.resolve()
    sandboxes = [pid for pod in pod_directories(directory) for pid in end_sandbox(pod)]
    ended = end_all_processes(directory, sandboxes)
    interfaces = _remove_network(interface_prefix(directory))
    deadline = time.monotonic() + 1.0
    while (stuck := cgroups.remove_all(directory)) and time.monotonic() < deadline:
        time.sleep(0.01)
    remove_tree(directory / "pods")
    remove_tree(scratch_place(directory))
    if purge:
        remove_tree(directory / "claims")
        _sign_off(directory)  # first: without its record a plane on the list counts as lost
        for name in (RECORD, "cgroups.json"):
            (directory / name).unlink(missing_ok=True)
    running = tuple(pid for pid in ended if is_alive(pid))
    return Removed(tuple(ended), tuple(interfaces), tuple(stuck), running)


def remove_lost(directory: Path) -> Removed:
    """Of a plane whose record is gone: what the kernel still has of it, and its registration.
    Volumes are never removed: the directory may be back by now."""
    removed = remove_everything(directory)
    _sign_off(directory)
    return removed


def _remove_network(prefix: str) -> list[str]:
    """Interfaces and packet rules. Another plane that starts just now waits until we have seen
    whether it is there."""
    if os.geteuid() != 0:
        return []  # an ordinary user's went with its namespace
    with planeregister.locked():
        interfaces = remove_interfaces(prefix) if Path("/sys/class/net").exists() else []
        close_way(prefix, last=not planes_on_this_machine())
    return interfaces


def _sign_off(directory: Path) -> None:
    if os.geteuid() == 0:
        with planeregister.locked() as register:
            register.remove(directory)


def end_all_processes(directory: Path, dying: Sequence[int] = ()) -> list[int]:
    """Kill the launcher and every Pod's processes of this plane, and wait until they are gone.

    An init is gone only when all processes of its Pod are.
    """
    found = sorted({*marked_processes(directory), *cgroups.members_of(directory), *dying})
    kill(found)
    deadline = time.monotonic() + _PATIENCE
    while any(is_alive(pid) for pid in found) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def marked_processes(directory: Path) -> list[int]:
    """Processes of this plane: by our mark on their command line, or, for those of Pods without
    namespaces, in their environment. Never those of a plane in a container."""
    whole = directory.resolve()
    helpers = find_processes("cmdline", f"\0{MARK}\0{whole}\0".encode())
    others = find_processes("environ", f"\0{PLANE_VARIABLE}={whole}\0".encode())
    return sorted({*helpers, *others})
