"""The RayCluster that a RayService makes."""

from __future__ import annotations

import msgspec

from manta.api.meta import ObjectMeta
from manta.api.ray.service import RayService
from manta.manifests.service_cluster import build_service_cluster, replicas_asked_for
from support.rayservice_objects import a_service, cluster_config


def service(**meta: object) -> RayService:
    plain = a_service()
    fields = {"name": "demo", "namespace": "default", "uid": "u", **meta}
    return msgspec.structs.replace(plain, metadata=msgspec.convert(fields, ObjectMeta))


def test_it_is_owned_and_says_where_it_came_from() -> None:
    made = build_service_cluster(service(labels={"team": "ml"}), cluster_config(), "demo-x", "v1")
    meta = made["metadata"]
    assert (made["apiVersion"], made["kind"], meta["name"]) == ("ray.io/v1", "RayCluster", "demo-x")
    assert meta["labels"] == {
        "team": "ml",
        "ray.io/originated-from-cr-name": "demo",
        "ray.io/originated-from-crd": "RayService",
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("RayService", "u", True)


def test_annotations_are_passed_on_but_for_kubectls_own() -> None:
    given = {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    made = build_service_cluster(service(annotations=given), cluster_config(), "demo-x", "v1")
    annotations = made["metadata"]["annotations"]
    assert annotations["a"] == "b"
    assert "kubectl.kubernetes.io/last-applied-configuration" not in annotations
    assert annotations["ray.io/num-worker-groups"].split()[0] == "1"
    assert annotations["ray.io/kuberay-version"] == "v1"


def test_what_we_do_not_know_reaches_the_cluster() -> None:
    spec = cluster_config() | {"fieldOfTheFuture": {"a": 1}}
    made = build_service_cluster(service(), spec, "demo-x", "v1")
    assert made["spec"] == spec
    assert made["spec"] is not spec


def test_a_cluster_that_starts_small_leaves_its_size_to_the_autoscaler() -> None:
    spec = cluster_config()
    made = build_service_cluster(service(), spec, "demo-x", "v1", from_smallest=True)
    assert "replicas" not in made["spec"]["workerGroupSpecs"][0]
    assert spec["workerGroupSpecs"][0]["replicas"] == 1


def test_the_replicas_of_each_group_are_remembered_and_read_again() -> None:
    spec = cluster_config()
    [one] = spec["workerGroupSpecs"]
    wanted = {"small": 2, "large": 30, "auto": None}
    spec["workerGroupSpecs"] = [
        {**one, "groupName": name, "replicas": number} for name, number in wanted.items()
    ]
    made = build_service_cluster(a_service(rayClusterConfig=spec), spec, "demo-x", "v1")
    assert replicas_asked_for(made["metadata"]["annotations"]) == {"small": 2, "large": 30}
    assert replicas_asked_for({}) is None
