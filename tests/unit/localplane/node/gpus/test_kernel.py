from __future__ import annotations

from pathlib import Path

from manta.api.well_known import RESOURCE_AMD_GPU, RESOURCE_NVIDIA_GPU
from manta.localplane.node.gpus.kernel import KernelGpus
from manta.localplane.node.gpus.reading import Reading

INFORMATION = """\
Model: \t\t NVIDIA H200
IRQ:   \t\t 42
GPU UUID: \t GPU-5e1bf1b5-0000-4000-8000-000000000001
Bus Type: \t PCIe
Device Minor: \t 3
"""


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def drm(root: Path, minor: int, pci: str, vendor: str, driver: str, **files: str) -> None:
    device = root / "sys/devices" / pci
    write(device / "vendor", f"{vendor}\n")
    write(device / "drm" / f"card{minor - 128}" / "dev")
    write(root / "sys/drivers" / driver / "bind")
    (device / "driver").symlink_to(root / "sys/drivers" / driver)
    for name, text in files.items():
        write(device / name, f"{text}\n")
    render = root / "sys/class/drm" / f"renderD{minor}"
    render.mkdir(parents=True)
    (render / "device").symlink_to(device)
    write(root / "dev/dri" / render.name)
    write(root / "dev/dri" / f"card{minor - 128}")


def test_a_machine_without_gpus_is_no_error(tmp_path: Path) -> None:
    found = KernelGpus(tmp_path)
    assert (found.gpus, found.errors(), found.read()) == ((), {}, {})


def test_the_kernel_shows_nvidia_gpus_without_nvml(tmp_path: Path) -> None:
    write(tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information", INFORMATION)
    (gpu,) = KernelGpus(tmp_path).gpus
    assert (gpu.id, gpu.resource, gpu.model, gpu.nodes) == (
        "GPU-5e1bf1b5-0000-4000-8000-000000000001",
        RESOURCE_NVIDIA_GPU,
        "NVIDIA H200",
        ("nvidia3",),
    )


def test_a_card_whose_uuid_the_driver_has_not_read_is_left_out(tmp_path: Path) -> None:
    unread = INFORMATION.replace("5e1bf1b5-0000-4000-8000-000000000001", "????????-????")
    write(tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information", unread)
    assert KernelGpus(tmp_path).gpus == ()


def test_the_kernel_shows_amd_gpus_and_their_use(tmp_path: Path) -> None:
    write(tmp_path / "dev/kfd")
    files = {"unique_id": "9f3c0000deadbeef", "mem_info_vram_total": "1000"}
    use = {"gpu_busy_percent": "7", "mem_info_vram_used": "300"}
    drm(tmp_path, 128, "0000:03:00.0", "0x1002", "amdgpu", **files, **use)
    found = KernelGpus(tmp_path)
    (gpu,) = found.gpus
    assert (gpu.id, gpu.resource, gpu.memory) == ("GPU-9f3c0000deadbeef", RESOURCE_AMD_GPU, 1000)
    assert gpu.nodes == ("dri/renderD128", "dri/card0")
    assert found.read() == {gpu.id: Reading(busy=7, used=300)}


def test_an_amd_gpu_whose_device_node_is_gone_has_fallen_off(tmp_path: Path) -> None:
    write(tmp_path / "dev/kfd")
    drm(tmp_path, 128, "0000:03:00.0", "0x1002", "amdgpu", unique_id="9f3c0000deadbeef")
    found = KernelGpus(tmp_path)
    (tmp_path / "dev/dri/renderD128").unlink()
    assert found.errors() == {"GPU-9f3c0000deadbeef": "/dev/dri/renderD128 is gone"}


def test_the_gpu_inside_an_intel_processor_is_not_offered(tmp_path: Path) -> None:
    drm(tmp_path, 128, "0000:00:02.0", "0x8086", "i915")
    drm(tmp_path, 129, "0000:03:00.0", "0x8086", "xe")
    assert [(gpu.id, gpu.resource) for gpu in KernelGpus(tmp_path).gpus] == [
        ("0000:03:00.0", "gpu.intel.com/xe")
    ]
