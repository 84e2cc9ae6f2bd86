"""What Pods leave on this machine: their directories, and what they held when no agent ran to end them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Final

from manta.localplane.node.host.confined_files import remove_tree
from manta.localplane.node.host.process_tree import is_alive, kill
from manta.localplane.node.machine import Machine
from manta.localplane.node.pod.kept import keep
from manta.localplane.node.sandbox.processes import POD_VARIABLE, find_processes
from manta.localplane.node.sandbox.sandbox import end_sandbox

_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.01

log = logging.getLogger(__name__)


async def remove_unknown_pods(machine: Machine, known: Container[str]) -> None:
    """Remove what is left of Pods that were deleted while no agent ran. `known`: UIDs of the Pods that there are."""
    for directory in pod_directories(machine.directory):
        uid = directory.name
        if uid not in known:
            await _until_ended(await asyncio.to_thread(end_sandbox, directory))
            await kill_remaining_processes(machine, uid)
            await remove_cgroup(machine, uid)
            machine.gpus.pool.release(
                uid
            )  # only now: a process that still ends still holds its GPUs
            await asyncio.to_thread(keep_and_remove, machine, directory)


async def _until_ended(pids: Iterable[int]) -> None:
    for _ in range(_TRIES):
        if not any(is_alive(pid) for pid in pids):
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    log.warning("some of the processes %s were killed but do not end", pids)


async def kill_remaining_processes(machine: Machine, uid: str) -> None:
    """Without namespaces, processes of the Pod can outlive its init and keep its ports."""
    if machine.isolated:
        return
    mark = f"\0{POD_VARIABLE}={uid}\0".encode()
    for _ in range(_TRIES):
        remaining = {*find_processes("environ", mark), *machine.cgroups.members(uid)}
        kill(remaining)
        if not remaining:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def remove_cgroup(machine: Machine, uid: str) -> None:
    """The kernel refuses for a moment after the last process has ended."""
    for _ in range(_TRIES):
        if machine.cgroups.remove(uid):
            return
        await asyncio.sleep(_PAUSE_SECONDS)


def keep_and_remove(machine: Machine, directory: Path) -> None:
    """Remove the directory of a Pod that is gone, after keeping what it asked to keep. Blocking.

    If that fails, such as on a full disk, the directory stays: the next start of the agent tries again.
    """
    on_kept = machine.options.on_kept
    if on_kept is not None:
        try:
            if keep(directory, machine.kept_directory):
                on_kept()
        except OSError as error:
            log.warning(
                "%s could not be moved to what is kept, and stays until the next start: %s",
                directory,
                error,
            )
            return
    remove_tree(directory)


def pod_directories(directory: Path) -> list[Path]:
    """The directories of all Pods that the plane in `directory` has on this machine."""
    try:
        return sorted(entry for entry in (directory / "pods").iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
