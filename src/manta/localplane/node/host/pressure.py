"""Memory and disk pressure of the machine, for the conditions of the node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
MIN_FREE_MEMORY = 200 * MIB
MIN_FREE_DISK = 500 * MIB


@dataclass(frozen=True, slots=True)
class FreeResources:
    """Free bytes of the machine; None if unknown."""

    memory: int | None
    disk: int | None


def measure(directory: Path) -> FreeResources:
    return FreeResources(_free_memory(), _free_disk(directory))


def pressures(spare: FreeResources, directory: Path) -> Mapping[str, tuple[str, str]]:
    """Condition type -> reason and message, for each shortage. Pure."""
    found: dict[str, tuple[str, str]] = {}
    if spare.memory is not None and spare.memory < MIN_FREE_MEMORY:
        message = (
            f"only {spare.memory // MIB} MiB of memory are free: end processes, or expect OOM kills"
        )
        found["MemoryPressure"] = ("KubeletHasInsufficientMemory", message)
    if spare.disk is not None and spare.disk < MIN_FREE_DISK:
        message = f"only {spare.disk // MIB} MiB are free below {directory}: Pods and images fail"
        found["DiskPressure"] = ("KubeletHasDiskPressure", message)
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
