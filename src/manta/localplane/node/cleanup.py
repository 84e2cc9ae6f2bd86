"""Removes everything that a plane left on the machine, also after it was killed.

It needs no running agent: it finds processes by the mark on their command lines, network interfaces and
cgroups by the plane's prefix. Mounts are in the Pods' own namespaces and end with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manta.localplane.node.host import cgroups, plane_register
from manta.localplane.node.host.confined_files import remove_tree
from manta.localplane.node.host.plane_id import interface_prefix
from manta.localplane.node.host.process_tree import is_alive, kill
from manta.localplane.node.net.address_ranges import RECORD
from manta.localplane.node.net.egress import close_egress
from manta.localplane.node.net.pod_network import planes_on_this_machine, remove_interfaces
from manta.localplane.node.net.shared_network import scratch_directory
from manta.localplane.node.pod.leftovers import pod_directories
from manta.localplane.node.sandbox.processes import MARK, PLANE_VARIABLE, find_processes
from manta.localplane.node.sandbox.sandbox import end_sandbox

_KILL_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Removed:
    processes: tuple[int, ...] = ()
    interfaces: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    """Groups that could not be removed because they still have processes."""
    running: tuple[int, ...] = ()
    """Processes that did not end although they were killed."""


def remove_everything(directory: Path, *, purge: bool = False) -> Removed:
    """End all Pods of the plane in `directory`; with `purge`, remove its volumes too.

    Blocking. Call it only when no agent of this plane runs.
    """
    directory = directory.resolve()
    sandboxes = [pid for pod in pod_directories(directory) for pid in end_sandbox(pod)]
    ended = end_all_processes(directory, sandboxes)
    interfaces = _remove_network(interface_prefix(directory))
    deadline = time.monotonic() + 1.0
    while (stuck := cgroups.remove_all(directory)) and time.monotonic() < deadline:
        time.sleep(0.01)
    remove_tree(directory / "pods")
    remove_tree(scratch_directory(directory))
    if purge:
        remove_tree(directory / "claims")
        _unregister(directory)  # first: a registered plane without a record counts as lost
        for name in (RECORD, "cgroups.json"):
            (directory / name).unlink(missing_ok=True)
    running = tuple(pid for pid in ended if is_alive(pid))
    return Removed(tuple(ended), tuple(interfaces), tuple(stuck), running)


def remove_lost(directory: Path) -> Removed:
    """Remove what the kernel still has of a plane without a record, and its registration.

    Volumes are kept: the directory may exist again."""
    removed = remove_everything(directory)
    _unregister(directory)
    return removed


def _remove_network(prefix: str) -> list[str]:
    """Remove interfaces and packet rules. The lock makes a plane that starts at the same time wait."""
    if os.geteuid() != 0:
        return []  # those of an unprivileged user end with its namespace
    with plane_register.locked():
        interfaces = remove_interfaces(prefix) if Path("/sys/class/net").exists() else []
        close_egress(prefix, last=not planes_on_this_machine())
    return interfaces


def _unregister(directory: Path) -> None:
    if os.geteuid() == 0:
        with plane_register.locked() as register:
            register.remove(directory)


def end_all_processes(directory: Path, also: Sequence[int] = ()) -> list[int]:
    """Kill the launcher and all Pod processes of this plane, wait for their end, return their pids.

    An init ends only after all processes of its Pod.
    """
    found = sorted({*marked_processes(directory), *cgroups.members_of(directory), *also})
    kill(found)
    deadline = time.monotonic() + _KILL_TIMEOUT_SECONDS
    while any(is_alive(pid) for pid in found) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def marked_processes(directory: Path) -> list[int]:
    """The pids of this plane's processes, by the mark on their command line or, for Pods without
    namespaces, in their environment. Processes of a plane inside a container do not count."""
    path = directory.resolve()
    helpers = find_processes("cmdline", f"\0{MARK}\0{path}\0".encode())
    others = find_processes("environ", f"\0{PLANE_VARIABLE}={path}\0".encode())
    return sorted({*helpers, *others})
