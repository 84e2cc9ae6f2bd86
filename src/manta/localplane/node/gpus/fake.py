"""GPUs without hardware, for tests and demonstrations: `manta up --fake-gpus N`.

A process holds a fake GPU if its environment names it. A file `broken-gpus` in the node's directory lists
the ids of those that have fallen off, one a line.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Final

from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.localplane.node.gpus.device import Gpu
from manta.localplane.node.gpus.reading import Holder, Reading

MEMORY: Final = 16 << 30
BROKEN: Final = "broken-gpus"


class FakeGpus:
    """Implements `GpuSource`."""

    def __init__(self, count: int, directory: Path) -> None:
        self._broken = directory / BROKEN
        self.gpus = tuple(
            Gpu(f"GPU-{_uuid(directory, index)}", RESOURCE_NVIDIA_GPU, "fake", index, MEMORY)
            for index in range(count)
        )

    def errors(self) -> dict[str, str]:
        try:
            broken = self._broken.read_text().split()
        except FileNotFoundError:
            return {}
        return {gpu.id: "the fake GPU has fallen off" for gpu in self.gpus if gpu.id in broken}

    def read(self) -> dict[str, Reading]:
        errors = self.errors()
        return {
            gpu.id: Reading(error=errors[gpu.id])
            if gpu.id in errors
            else Reading(busy=0, used=0, holders=_holders(gpu))
            for gpu in self.gpus
        }


def _holders(gpu: Gpu) -> tuple[Holder, ...]:
    """Also in the namespaces of Pods, as NVML shows them."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if gpu.id.encode() in Path(entry.path, "environ").read_bytes():
                    found.append(Holder(int(entry.name)))
    return tuple(found)


def _uuid(directory: Path, index: int) -> uuid.UUID:
    """The same at each start of the plane, and another in each plane."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{directory.resolve().as_uri()}#{index}")
