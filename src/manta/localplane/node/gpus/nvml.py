"""NVIDIA's GPUs by NVML, the library of `nvidia-smi`, through the optional package nvidia-ml-py."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.localplane.node.gpus.device import Gpu
from manta.localplane.node.gpus.reading import Holder, Reading

log = logging.getLogger(__name__)


def open_nvml() -> NvmlGpus | None:
    """None without the package, the library, a driver or a GPU: the kernel may still show some."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        found = NvmlGpus(nvml)
    except ImportError:
        log.debug("nvidia-ml-py is not installed")
        return None
    except Exception as error:  # noqa: BLE001 - NVMLError, or what loading a broken library raises
        log.info("no NVML: %s", error)
        return None
    return found if found.gpus else None


class NvmlGpus:
    """Implements `GpuSource`."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self.gpus = tuple(
            gpu for index in range(nvml.nvmlDeviceGetCount()) if (gpu := self._find(index))
        )

    def _find(self, index: int) -> Gpu | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            return Gpu(
                id=_text(nvml.nvmlDeviceGetUUID(handle)),
                resource=RESOURCE_NVIDIA_GPU,
                model=_text(nvml.nvmlDeviceGetName(handle)),
                index=index,
                memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                nodes=(f"nvidia{nvml.nvmlDeviceGetMinorNumber(handle)}",),
            )
        except nvml.NVMLError as error:
            log.warning("GPU %d of NVML is left out: %s", index, error)
            return None

    def errors(self) -> dict[str, str]:
        found = {}
        for gpu in self.gpus:
            try:
                handle = self._nvml.nvmlDeviceGetHandleByUUID(gpu.id)
                self._nvml.nvmlDeviceGetMemoryInfo(handle)
            except self._nvml.NVMLError as error:
                found[gpu.id] = f"NVML: {error}"
        return found

    def read(self) -> dict[str, Reading]:
        return {gpu.id: self._read(gpu) for gpu in self.gpus}

    def _read(self, gpu: Gpu) -> Reading:
        nvml = self._nvml
        try:
            # By UUID: the numbers of the others change when one falls off.
            handle = nvml.nvmlDeviceGetHandleByUUID(gpu.id)
            used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
            return Reading(busy=self._busy(handle), used=used, holders=self._holders(handle))
        except nvml.NVMLError as error:
            return Reading(error=f"NVML: {error}")

    def _busy(self, handle: Any) -> int | None:
        try:
            return int(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except self._nvml.NVMLError_NotSupported:
            return None

    def _holders(self, handle: Any) -> tuple[Holder, ...]:
        nvml = self._nvml
        found: dict[int, Holder] = {}
        for listed in (
            nvml.nvmlDeviceGetComputeRunningProcesses,
            nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            try:
                found |= {one.pid: Holder(one.pid, one.usedGpuMemory) for one in listed(handle)}
            except (nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission):
                continue
        return tuple(found[pid] for pid in sorted(found))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
