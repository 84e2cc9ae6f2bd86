"""GPUs by what the kernel shows, without any vendor's library.

NVIDIA: /proc/driver/nvidia; AMD and Intel: /sys/class/drm. `root` is `/`, or a copy in tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from manta.api.well_known import RESOURCE_AMD_GPU, RESOURCE_NVIDIA_GPU
from manta.localplane.node.gpus.device import INTEL, Gpu
from manta.localplane.node.gpus.reading import Reading

_AMD_VENDOR, _INTEL_VENDOR = "0x1002", "0x8086"


class KernelGpus:
    """Implements `GpuSource`. The kernel shows use and memory of AMD's GPUs only, and no processes."""

    def __init__(self, root: Path = Path("/"), *, nvidia: bool = True) -> None:
        """`nvidia`: False if NVML shows NVIDIA's."""
        self._root = root
        found = list(_nvidia(root)) if nvidia else []
        self.gpus = (*found, *_drm(root))

    def read(self) -> dict[str, Reading]:
        return {gpu.id: self._reading(gpu) for gpu in self.gpus}

    def errors(self) -> dict[str, str]:
        return {gpu.id: error for gpu in self.gpus if (error := self._error(gpu))}

    def _error(self, gpu: Gpu) -> str:
        missing = [name for name in gpu.nodes if not (self._root / "dev" / name).exists()]
        return f"/dev/{missing[0]} is gone" if missing else ""

    def _reading(self, gpu: Gpu) -> Reading:
        if error := self._error(gpu):
            return Reading(error=error)
        render = next((name for name in gpu.nodes if name.startswith("dri/render")), "")
        if not render:
            return Reading()
        device = self._root / "sys/class/drm" / Path(render).name / "device"
        busy, used = _text(device / "gpu_busy_percent"), _text(device / "mem_info_vram_used")
        return Reading(
            busy=int(busy) if busy.isdecimal() else None,
            used=int(used) if used.isdecimal() else None,
        )


def _nvidia(root: Path) -> Iterator[Gpu]:
    """A driver that has not read a card's UUID yet shows question marks: such a card is left out."""
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        lines = (line.partition(":") for line in _text(path).splitlines())
        fields = {name.strip(): value.strip() for name, _, value in lines}
        id_, minor = fields.get("GPU UUID", ""), fields.get("Device Minor", "")
        if id_ and "?" not in id_ and minor.isdecimal():
            model = fields.get("Model", "NVIDIA")
            yield Gpu(id_, RESOURCE_NVIDIA_GPU, model, int(minor), nodes=(f"nvidia{minor}",))


def _drm(root: Path) -> Iterator[Gpu]:
    counted = {RESOURCE_AMD_GPU: 0, **dict.fromkeys(INTEL.values(), 0)}
    for render in sorted((root / "sys/class/drm").glob("renderD*")):
        device = render / "device"
        if (resource := _resource(root, device)) is None:
            continue
        cards = sorted(card.name for card in (device / "drm").glob("card*"))
        serial, index = _text(device / "unique_id"), counted[resource]
        counted[resource] += 1
        memory = _text(device / "mem_info_vram_total")
        yield Gpu(
            id=f"GPU-{serial}" if serial.strip("0") else device.resolve().name,
            resource=resource,
            model=_text(device / "product_name") or f"PCI {_text(device / 'device')}",
            index=index,
            memory=int(memory) if memory.isdecimal() else 0,
            nodes=(f"dri/{render.name}", *(f"dri/{card}" for card in cards)),
            visible_as="" if serial.strip("0") else str(index),
        )


def _resource(root: Path, device: Path) -> str | None:
    """None: no GPU that computes, as the one in an Intel processor, which is on PCI bus 0."""
    vendor, driver = _text(device / "vendor"), (device / "driver").resolve().name
    if vendor == _AMD_VENDOR and (root / "dev/kfd").exists():
        return RESOURCE_AMD_GPU
    if vendor == _INTEL_VENDOR and not device.resolve().name.startswith("0000:00:"):
        return INTEL.get(driver)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
