"""Is this machine short of memory or disk? A node says so in its conditions, as a kubelet does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
LEAST_MEMORY = 200 * MIB
LEAST_DISK = 500 * MIB


@dataclass(frozen=True, slots=True)
class Spare:
    """What is left of the machine. None: it cannot be known."""

    memory: int | None
    disk: int | None


def look(directory: Path) -> Spare:
    return Spare(_free_memory(), _free_disk(directory))


def pressures(spare: Spare, directory: Path) -> Mapping[str, tuple[str, str]]:
    """Condition -> reason and message, for each thing that is scarce. Pure."""
    found: dict[str, tuple[str, str]] = {}
    if spare.memory is not None and spare.memory < LEAST_MEMORY:
        words = f"only {spare.memory // MIB} MiB of memory are free: end something, or expect kills"
        found["MemoryPressure"] = ("KubeletHasInsufficientMemory", words)
    if spare.disk is not None and spare.disk < LEAST_DISK:
        words = f"only {spare.disk // MIB} MiB are free below {directory}: Pods and images fail"
        found["DiskPressure"] = ("KubeletHasDiskPressure", words)
    return found


def _free_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else None


def _free_disk(directory: Path) -> int | None:
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
