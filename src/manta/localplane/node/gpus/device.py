"""GPUs as values: what one is, and what a container that was given some sees of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from manta.api.well_known import (
    RESOURCE_AMD_GPU,
    RESOURCE_INTEL_I915,
    RESOURCE_INTEL_XE,
    RESOURCE_NVIDIA_GPU,
)

INTEL: Final = {"i915": RESOURCE_INTEL_I915, "xe": RESOURCE_INTEL_XE}
"""The resource, by driver of the kernel."""


@dataclass(frozen=True, slots=True)
class Gpu:
    id: str
    """Unique on the machine, and the same after a restart."""
    resource: str
    model: str
    index: int
    """The number that the vendor's tools show."""
    memory: int = 0
    """Bytes; 0 if unknown."""
    nodes: tuple[str, ...] = ()
    """Its own device nodes below /dev."""
    visible_as: str = ""
    """How the vendor's variables name it; empty: by `id`."""


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """A GPU that a container holds."""

    resource: str
    id: str
    error: str
    """Why it cannot be used; empty if it can."""


@dataclass(frozen=True, slots=True)
class Vendor:
    variables: tuple[str, ...] = ()
    """Environment variables that list the GPUs that a program may use."""
    without: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of a container without a GPU of this vendor."""
    families: tuple[str, ...] = ()
    """Prefixes of the names of its device nodes below /dev."""
    shared: tuple[str, ...] = ()
    """Device nodes that each container with a GPU needs."""


VENDORS: Final[Mapping[str, Vendor]] = {
    RESOURCE_NVIDIA_GPU: Vendor(
        variables=("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
        without={"NVIDIA_VISIBLE_DEVICES": "void"},
        families=("nvidia",),
        shared=("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"),
    ),
    RESOURCE_AMD_GPU: Vendor(
        variables=("ROCR_VISIBLE_DEVICES",), families=("kfd", "dri"), shared=("kfd",)
    ),
    **dict.fromkeys(INTEL.values(), Vendor(variables=("ZE_AFFINITY_MASK",), families=("dri",))),
}


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Which device nodes of GPUs a container sees, by their names below /dev."""

    families: tuple[str, ...] = ()
    """Prefixes of the names that are hidden unless they are in `given`."""
    given: tuple[str, ...] = ()


def device_nodes(given: Sequence[Gpu], found: Iterable[Gpu]) -> DeviceNodes:
    """`found`: all GPUs of the machine, also those that are not offered to Pods."""
    families = {name for gpu in found for name in VENDORS[gpu.resource].families}
    shared = {name for gpu in given for name in VENDORS[gpu.resource].shared}
    own = {name for gpu in given for name in gpu.nodes}
    return DeviceNodes(tuple(sorted(families)), tuple(sorted(shared | own)))


def variables(given: Sequence[Gpu], found: Iterable[Gpu], *, isolated: bool) -> dict[str, str]:
    """The environment variables of a container with the GPUs `given`; `found` are all GPUs of the machine.

    `isolated`: the container does not see the device nodes of other GPUs. Otherwise only variables that are
    empty keep a program from using all GPUs.
    """
    env: dict[str, str] = {}
    for resource in sorted({gpu.resource for gpu in found}):
        vendor = VENDORS[resource]
        mine = [gpu.visible_as or gpu.id for gpu in given if gpu.resource == resource]
        if mine:
            env |= dict.fromkeys(vendor.variables, ",".join(mine))
        else:
            env |= {} if isolated else dict.fromkeys(vendor.variables, "")
            env |= vendor.without
    return env
