"""What a source of GPUs tells about one GPU at a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from manta.localplane.node.gpus.device import Gpu


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds memory of a GPU."""

    pid: int
    memory: int | None = None
    """Bytes; None if unknown."""


@dataclass(frozen=True, slots=True)
class Reading:
    error: str = ""
    """Why the GPU cannot be used; empty if it can."""
    busy: int | None = None
    """Percent of the last moments in which it computed; None if unknown."""
    used: int | None = None
    """Bytes of its memory; None if unknown."""
    holders: tuple[Holder, ...] = ()


class GpuSource(Protocol):
    """NVML, the kernel, or a fake. `errors` and `read` are blocking."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """What was found at the start."""

    def errors(self) -> Mapping[str, str]:
        """Why GPUs cannot be used, by id; usable ones are left out."""

    def read(self) -> Mapping[str, Reading]:
        """One reading for each of `gpus`, by id. That of a failed GPU has its error."""
