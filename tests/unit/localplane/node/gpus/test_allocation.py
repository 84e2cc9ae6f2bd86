from __future__ import annotations

import pytest

from manta.api.well_known import RESOURCE_AMD_GPU
from manta.localplane.node.gpus.allocation import NoDeviceError, assign
from support.gpus import a_pod, asking, gpus


def test_containers_of_a_pod_share_no_gpu() -> None:
    given = assign(a_pod(asking(1, "a"), asking(2, "b"), asking(0, "c")), gpus(3))
    assert given == {"a": ("GPU-nvidia-0",), "b": ("GPU-nvidia-1", "GPU-nvidia-2")}


def test_an_init_container_uses_a_gpu_that_a_later_container_gets() -> None:
    given = assign(a_pod(asking(1, "app"), init=(asking(1, "first"),)), gpus(1))
    assert given == {"first": ("GPU-nvidia-0",), "app": ("GPU-nvidia-0",)}


def test_a_sidecar_keeps_its_gpu_while_the_others_run() -> None:
    sidecar = asking(1, "side", restartPolicy="Always")
    given = assign(a_pod(asking(1, "app"), init=(sidecar, asking(1, "first"))), gpus(2))
    assert given == {
        "side": ("GPU-nvidia-0",),
        "first": ("GPU-nvidia-1",),
        "app": ("GPU-nvidia-1",),
    }


def test_a_pod_that_asks_for_more_than_is_free_gets_nothing() -> None:
    with pytest.raises(NoDeviceError, match=r"2 nvidia.com/gpu wanted, 1 free"):
        assign(a_pod(asking(2)), gpus(1))


def test_a_pod_gets_gpus_of_the_vendor_that_it_asks_for() -> None:
    given = assign(a_pod(asking(1)), (*gpus(1, RESOURCE_AMD_GPU), *gpus(1)))
    assert given == {"main": ("GPU-nvidia-0",)}
