"""Resources and the paths by which the API server knows them."""

from __future__ import annotations

import pytest

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import NODES, PODS, Resource


@pytest.mark.parametrize(
    ("resource", "place", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("n",), "/api/v1/namespaces/n/pods"),
        (PODS, ("n", "a", "log"), "/api/v1/namespaces/n/pods/a/log"),
        (NODES, ("ignored", "a"), "/api/v1/nodes/a"),
        (RAY_CLUSTERS, ("n", "a", "status"), "/apis/ray.io/v1/namespaces/n/rayclusters/a/status"),
    ],
)
def test_the_path_of_a_resource(resource: Resource, place: tuple[str, ...], path: str) -> None:
    assert resource.path(*place) == path


def test_a_resource_is_named_as_messages_and_manifests_name_it() -> None:
    assert (PODS.api_version, PODS.group_resource) == ("v1", "pods")
    assert RAY_CLUSTERS.api_version == "ray.io/v1"
    assert RAY_CLUSTERS.group_resource == "rayclusters.ray.io"
