from __future__ import annotations

from pathlib import Path

from manta.api.well_known import RESOURCE_AMD_GPU
from manta.localplane.node.gpus.inventory import permitted, take_inventory
from manta.localplane.node.gpus.pool import assign_to_nodes
from support.gpus import gpus


def test_a_plane_offers_only_what_it_may_use_itself() -> None:
    found = (*gpus(3), *gpus(1, RESOURCE_AMD_GPU))
    by_number = permitted(found, {"CUDA_VISIBLE_DEVICES": "2,0"})
    by_uuid = permitted(found, {"CUDA_VISIBLE_DEVICES": "GPU-nvidia-1"})
    assert [gpu.id for gpu in by_number] == ["GPU-nvidia-0", "GPU-nvidia-2", "GPU-amd-0"]
    assert [gpu.id for gpu in by_uuid] == ["GPU-nvidia-1", "GPU-amd-0"]


def test_fake_gpus_are_the_same_at_the_next_start_and_others_in_another_plane(
    tmp_path: Path,
) -> None:
    first, again, other = (
        take_inventory(tmp_path / name, limit=None, fake=2, env={}).offered
        for name in ("a", "a", "b")
    )
    assert first == again
    assert {gpu.id for gpu in first}.isdisjoint(gpu.id for gpu in other)


def test_a_limit_leaves_the_rest_to_others(tmp_path: Path) -> None:
    inventory = take_inventory(tmp_path, limit=1, fake=3, env={})
    assert (len(inventory.offered), len(inventory.source.gpus)) == (1, 3)


def test_each_gpu_belongs_to_one_node() -> None:
    dealt = assign_to_nodes(gpus(3), ("a", "b"))
    assert {node: [gpu.index for gpu in mine] for node, mine in dealt.items()} == {
        "a": [0, 2],
        "b": [1],
    }
