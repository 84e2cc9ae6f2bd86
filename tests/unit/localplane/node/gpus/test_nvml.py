from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from manta.localplane.node.gpus.nvml import NvmlGpus, open_nvml
from manta.localplane.node.gpus.reading import Holder, Reading


class NVMLError(Exception):
    pass


class NotSupportedError(NVMLError):
    pass


class FakeNvml(ModuleType):
    """NVML of a machine with two GPUs; `lost` have fallen off."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NotSupportedError
    NVMLError_NoPermission = type("NVMLError_NoPermission", (NVMLError,), {})

    def __init__(self, *, driver: bool = True) -> None:
        super().__init__("pynvml")
        self.driver = driver
        self.lost: set[str] = set()

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise NVMLError("Driver Not Loaded")

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: f"GPU-{index}",
            "nvmlDeviceGetHandleByUUID": self._handle,
            "nvmlDeviceGetUUID": lambda handle: handle,
            "nvmlDeviceGetName": lambda _: b"NVIDIA H200",
            "nvmlDeviceGetMinorNumber": lambda handle: handle[-1],
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=100, used=40),
            "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=7),
            "nvmlDeviceGetComputeRunningProcesses": lambda _: [
                SimpleNamespace(pid=12, usedGpuMemory=40)
            ],
            "nvmlDeviceGetGraphicsRunningProcesses": self._unsupported,
        }
        if name not in answers:
            raise AttributeError(name)
        return answers[name]

    def _handle(self, uuid: str) -> str:
        if uuid in self.lost:
            raise NVMLError("GPU is lost")
        return uuid

    def _unsupported(self, _: str) -> None:
        raise NotSupportedError("Not Supported")


def test_nvml_shows_gpus_with_use_and_processes() -> None:
    found = NvmlGpus(FakeNvml())
    first = found.gpus[0]
    assert (first.id, first.model, first.memory, first.nodes) == (
        "GPU-0",
        "NVIDIA H200",
        100,
        ("nvidia0",),
    )
    assert found.read()["GPU-0"] == Reading(busy=7, used=40, holders=(Holder(12, 40),))


def test_a_gpu_that_falls_off_does_not_hide_the_others() -> None:
    nvml = FakeNvml()
    found = NvmlGpus(nvml)
    nvml.lost.add("GPU-0")
    assert found.errors() == {"GPU-0": "NVML: GPU is lost"}
    assert found.read()["GPU-0"] == Reading(error="NVML: GPU is lost")
    assert found.read()["GPU-1"].busy == 7


def test_a_missing_driver_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(driver=False))
    assert open_nvml() is None


def test_a_driver_that_cannot_count_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> int:
        raise NVMLError("Unknown Error")

    nvml = FakeNvml()
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", count, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert open_nvml() is None


def test_a_missing_package_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_nvml() is None
