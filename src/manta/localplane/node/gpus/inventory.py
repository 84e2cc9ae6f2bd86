"""The GPUs of this machine, and which of them are offered to Pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.localplane.node.gpus.device import Gpu
from manta.localplane.node.gpus.fake import FakeGpus
from manta.localplane.node.gpus.kernel import KernelGpus
from manta.localplane.node.gpus.nvml import open_nvml
from manta.localplane.node.gpus.reading import GpuSource, Reading


@dataclass(frozen=True, slots=True)
class Inventory:
    source: GpuSource
    offered: tuple[Gpu, ...]


def take_inventory(
    directory: Path, *, limit: int | None, fake: int, env: Mapping[str, str]
) -> Inventory:
    """Blocking. `limit`: offer at most so many; None: all. `env`: of this process; what it may not use
    itself, it does not offer."""
    source = find_gpus(directory, fake)
    offered = source.gpus if fake else permitted(source.gpus, env)
    return Inventory(source, offered if limit is None else offered[:limit])


def find_gpus(directory: Path, fake: int = 0) -> GpuSource:
    if fake:
        return FakeGpus(fake, directory)
    nvml = open_nvml()
    if nvml is None:
        return KernelGpus()
    kernel = KernelGpus(nvidia=False)
    return _Both(nvml, kernel) if kernel.gpus else nvml


def permitted(gpus: Sequence[Gpu], env: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES allows, as a batch system sets it. Pure."""
    listed = env.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(gpus)
    words = [word.strip() for word in listed.split(",") if word.strip()]
    return tuple(
        gpu
        for gpu in gpus
        if gpu.resource != RESOURCE_NVIDIA_GPU
        or any(word == str(gpu.index) or gpu.id.startswith(word) for word in words)
    )


class _Both:
    """NVIDIA's by NVML, the others by the kernel."""

    def __init__(self, one: GpuSource, other: GpuSource) -> None:
        self._sources = (one, other)
        self.gpus = (*one.gpus, *other.gpus)

    def errors(self) -> dict[str, str]:
        one, other = self._sources
        return {**one.errors(), **other.errors()}

    def read(self) -> dict[str, Reading]:
        one, other = self._sources
        return {**one.read(), **other.read()}
