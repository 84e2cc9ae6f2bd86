from __future__ import annotations

from manta.api.well_known import RESOURCE_AMD_GPU
from manta.localplane.node.gpus.device import DeviceNodes, device_nodes, variables
from support.gpus import gpus


def test_a_container_sees_its_own_gpus_by_uuid() -> None:
    one, two, _ = found = gpus(3)
    assert variables((one, two), found, isolated=True) == {
        "CUDA_VISIBLE_DEVICES": "GPU-nvidia-0,GPU-nvidia-1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-nvidia-0,GPU-nvidia-1",
    }


def test_an_isolated_container_without_gpus_is_told_so_as_on_kubernetes() -> None:
    assert variables((), gpus(1), isolated=True) == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_without_isolation_only_the_variables_keep_programs_from_gpus() -> None:
    assert variables((), gpus(1), isolated=False) == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }


def test_a_machine_without_gpus_sets_no_variables() -> None:
    assert variables((), (), isolated=False) == {}


def test_a_container_has_the_device_nodes_of_its_own_gpus_only() -> None:
    found = gpus(2)
    assert device_nodes(found[:1], found) == DeviceNodes(
        ("nvidia",),
        ("nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidiactl"),
    )


def test_a_container_without_gpus_has_no_device_nodes_of_the_vendors_that_are_there() -> None:
    found = (*gpus(1), *gpus(1, RESOURCE_AMD_GPU))
    assert device_nodes((), found) == DeviceNodes(("dri", "kfd", "nvidia"), ())
