"""What the Ray container of a Pod gets: its metrics port and its shared memory."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.ray import names
from manta.manifests.head_pod import build_head_pod
from manta.rules.settings import Settings
from support.raycluster import container, ray_cluster, template
from support.raycluster_scenario import decode


def head_with(**fields: Any) -> dict[str, Any]:
    cluster = decode(ray_cluster(head={"template": template(container(**fields))}))
    made: dict[str, Any] = build_head_pod(cluster, Settings(), spec_hash="x")["spec"]
    return made


def test_a_metrics_port_of_the_users_own_is_the_only_one() -> None:
    own = {"name": "metrics", "containerPort": 9090}
    [ray] = head_with(ports=[own])["containers"]
    assert [one for one in ray["ports"] if one["name"] == "metrics"] == [own]


def test_without_one_the_metrics_port_is_added() -> None:
    other = {"name": "dashboard", "containerPort": 8265}
    [ray] = head_with(ports=[other])["containers"]
    assert ray["ports"] == [other, {"name": "metrics", "containerPort": 8080}]


@pytest.mark.parametrize(
    ("resources", "size"),
    [
        ({"limits": {"memory": "4Gi"}, "requests": {"memory": "2Gi"}}, "4Gi"),
        ({"limits": {"cpu": "1"}, "requests": {"memory": "2Gi"}}, "2Gi"),
        ({"limits": {"memory": "4Gi"}}, "4Gi"),
        ({}, None),
    ],
)
def test_shared_memory_may_be_as_large_as_the_containers_memory(
    resources: dict[str, Any], size: str | None
) -> None:
    volumes = {one["name"]: one for one in head_with(resources=resources)["volumes"]}
    memory = volumes[names.VOLUME_SHARED_MEMORY]["emptyDir"]
    assert (memory["medium"], memory.get("sizeLimit")) == ("Memory", size)
