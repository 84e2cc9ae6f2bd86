"""The sizes of worker groups during a canary, and the annotation that records them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.ray.cluster import RayClusterSpec
from manta.api.ray.names import ANNOTATION_FULL_SIZE
from manta.manifests.canary_cluster import (
    Size,
    bounds,
    full_bounds,
    recorded_sizes,
    resize,
    sizes_of,
    sizes_text,
)
from support.raycluster import group, ray_cluster


def spec(*groups: dict[str, Any], autoscaler: bool = False) -> RayClusterSpec:
    body = ray_cluster(groups=list(groups), enableInTreeAutoscaling=autoscaler)["spec"]
    return msgspec.convert(body, RayClusterSpec)


@pytest.mark.parametrize(
    ("fields", "autoscaler", "replicas"),
    [
        ({"replicas": 2, "maxReplicas": 9}, False, 2),
        ({"replicas": 2, "maxReplicas": 9}, True, 6),
        ({"replicas": 8, "maxReplicas": 9}, True, 8),
        ({"replicas": 2, "maxReplicas": 4}, True, 4),
        ({"replicas": 2, "maxReplicas": 9, "suspend": True}, True, 0),
    ],
    ids=["by its spec", "as the old one", "its spec is larger", "at most its bound", "suspended"],
)
def test_a_new_group_begins_as_large_as_the_old_one_with_an_autoscaler(
    fields: dict[str, Any], autoscaler: bool, replicas: int
) -> None:
    one = spec(group("gpu", **fields), autoscaler=autoscaler)
    assert sizes_of(one, {"gpu": Size(6)})["gpu"].replicas == replicas


def test_a_group_that_is_new_has_at_least_one_worker_with_an_autoscaler() -> None:
    one = spec(group("gpu", replicas=0, minReplicas=0, maxReplicas=9), autoscaler=True)
    assert sizes_of(one, {})["gpu"].replicas == 1
    assert sizes_of(one)["gpu"].replicas == 0


def test_the_annotation_is_read_as_it_was_written() -> None:
    sizes = {"a": Size(4, 1, 9), "b": Size(2), "c": Size(0, None, 3)}
    assert recorded_sizes({ANNOTATION_FULL_SIZE: sizes_text(sizes)}) == sizes
    assert recorded_sizes({}) is None
    assert recorded_sizes({ANNOTATION_FULL_SIZE: ""}) == {}
    odd = recorded_sizes({ANNOTATION_FULL_SIZE: "a=many/x,b=3"})  # as somebody edited it
    assert odd == {"a": Size(0), "b": Size(3)}


def test_bounds_keep_the_autoscaler_at_the_size_of_the_step() -> None:
    size = Size(4, 2, 9)
    assert bounds(size, 1, scales=False) == {"replicas": 1, "minReplicas": 1}
    assert bounds(size, 3, scales=True) == {"replicas": 3, "minReplicas": 2, "maxReplicas": 3}
    assert bounds(size, 3, scales=True, least=0)["minReplicas"] == 0
    assert full_bounds(size, scales=True) == {"minReplicas": 2, "maxReplicas": 9}
    assert full_bounds(Size(4), scales=False) == {"replicas": 4}


def test_a_new_cluster_records_its_full_size_and_begins_with_the_step() -> None:
    manifest = ray_cluster(groups=[group("gpu", 4), group("cpu", 2)])
    manifest["metadata"]["annotations"] = {}
    made = resize(manifest, {"gpu": Size(4), "cpu": Size(2)}, {"gpu": 1})
    assert made["metadata"]["annotations"][ANNOTATION_FULL_SIZE] == "gpu=4//,cpu=2//"
    assert [one["replicas"] for one in made["spec"]["workerGroupSpecs"]] == [1, 0]
