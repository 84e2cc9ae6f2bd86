"""The Services, the Gateway and the HTTPRoute of a RayService."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob
from manta.manifests.gateway import Backend, build_gateway, build_route
from manta.manifests.job_cluster import build_job_head_service
from manta.manifests.serve_services import (
    build_cluster_serve_service,
    build_serve_service,
    build_service_head_service,
    serve_port,
)
from manta.manifests.services import build_head_service
from manta.rules.settings import Settings
from support.raycluster import ray_cluster
from support.rayjob import ray_job
from support.rayservice_objects import a_cluster, a_service, cluster_config


def with_ports(*ports: tuple[str, int]) -> RayCluster:
    config = cluster_config()
    declared = [{"name": name, "containerPort": number} for name, number in ports]
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = declared
    return a_cluster("demo-a", rayClusterConfig=config)


def custom(**service: Any) -> dict[str, Any]:
    return build_serve_service(a_service(serveService=service), a_cluster("demo-a"))


def test_the_serve_service_selects_the_serving_pods_of_one_cluster() -> None:
    made = build_serve_service(a_service(), a_cluster("demo-a"))
    assert (made["apiVersion"], made["kind"]) == ("v1", "Service")
    assert made["metadata"]["name"] == "demo-serve-svc"
    assert made["spec"] == {
        "type": "ClusterIP",
        "selector": {"ray.io/cluster": "demo-a", "ray.io/serve": "true"},
        "ports": [{"name": "serve", "port": 8000, "protocol": "TCP", "targetPort": 8000}],
    }
    assert made["metadata"]["labels"]["ray.io/serve"] == "demo-serve"


def test_only_ports_for_serving_are_served() -> None:
    cluster = with_ports(("dashboard", 8265), ("serve", 8001), ("serve-grpc", 9000), ("server", 1))
    made = build_serve_service(a_service(), cluster)
    assert {one["name"]: one["port"] for one in made["spec"]["ports"]} == {
        "serve": 8001,
        "serve-grpc": 9000,
    }
    assert serve_port(cluster, None) == 8001


def test_a_users_own_serve_service_keeps_what_he_said() -> None:
    ports = [{"name": "serve", "port": 80, "targetPort": 8000, "appProtocol": "http"}]
    made = custom(
        metadata={"name": "front", "namespace": "elsewhere", "labels": {"a": "b"}},
        spec={"type": "LoadBalancer", "selector": {"mine": "x"}, "ports": ports},
    )
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("front", "default")
    assert made["metadata"]["labels"]["a"] == "b"
    assert made["spec"]["type"] == "LoadBalancer"
    assert made["spec"]["ports"] == ports
    assert made["spec"]["selector"] == {"ray.io/cluster": "demo-a", "ray.io/serve": "true"}


def test_ports_that_the_head_does_not_declare_are_not_served() -> None:
    made = custom(spec={"ports": [{"name": "other", "port": 1}]})
    assert [one["name"] for one in made["spec"]["ports"]] == ["serve"]


def test_without_declared_serve_ports_the_users_own_stand() -> None:
    service = a_service(serveService={"spec": {"ports": [{"name": "other", "port": 1}]}})
    made = build_serve_service(service, with_ports(("dashboard", 8265)))
    assert made["spec"]["ports"] == [{"name": "other", "port": 1}]


def test_the_head_service_has_a_stable_name_and_no_label_of_one_cluster() -> None:
    made = build_service_head_service(a_service(), a_cluster("demo-a"), Settings())
    assert made["metadata"]["name"] == "demo-head-svc"
    assert made["metadata"]["labels"] == {
        "ray.io/originated-from-cr-name": "demo",
        "ray.io/originated-from-crd": "RayService",
        "ray.io/node-type": "head",
        "ray.io/identifier": "demo-head",
    }
    assert made["spec"]["selector"]["ray.io/cluster"] == "demo-a"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "RayService"


def test_a_clusters_own_serve_service_belongs_to_the_cluster() -> None:
    made = build_cluster_serve_service(a_service(), a_cluster("demo-a"))
    assert made["metadata"]["name"] == "demo-a-serve-svc"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "RayCluster"
    assert made["metadata"]["labels"]["ray.io/serve"] == "demo-a-serve"


def test_the_gateway_has_one_listener() -> None:
    made = build_gateway(a_service(), "istio")
    assert made["metadata"]["name"] == "demo-gateway"
    assert made["spec"] == {
        "gatewayClassName": "istio",
        "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}],
    }


@pytest.mark.parametrize("count", [1, 2])
def test_the_route_weighs_the_clusters(count: int) -> None:
    backends = [Backend("demo-a-serve-svc", 8000, 75), Backend("demo-b-serve-svc", 8000, 25)][
        :count
    ]
    made = build_route(a_service(), backends)
    assert made["metadata"]["name"] == "demo-httproute"
    assert made["spec"]["parentRefs"] == [{"name": "demo-gateway", "namespace": "default"}]
    (rule,) = made["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    assert [one["weight"] for one in rule["backendRefs"]] == [75, 25][:count]


def test_a_clusters_own_serve_service_is_labelled_after_the_cluster() -> None:
    """S15."""
    made = build_cluster_serve_service(a_service(), a_cluster("demo-a"))
    assert made["metadata"]["labels"]["ray.io/originated-from-cr-name"] == "demo-a"
    assert made["metadata"]["labels"]["ray.io/originated-from-crd"] == "RayService"


def test_addresses_of_the_users_own_head_service_stay_with_the_cluster() -> None:
    """The second Service that asks for a node port is refused, and its cluster never started."""
    ports = [{"name": "dashboard", "port": 8265, "nodePort": 30123}]
    chosen = {"type": "NodePort", "ports": ports, "clusterIP": "10.96.0.77"}
    head = {"headService": {"spec": chosen}}
    cluster = msgspec.convert(ray_cluster("demo-a", head=head), RayCluster)
    own = build_head_service(cluster, Settings())["spec"]
    assert own["ports"][0]["nodePort"] == 30123
    assert own["clusterIP"] == "10.96.0.77"
    job = msgspec.convert(ray_job(), RayJob)
    for made in (
        build_service_head_service(a_service(), cluster, Settings()),
        build_job_head_service(job, cluster, Settings(), None),
    ):
        assert made["spec"]["type"] == "NodePort"
        assert [one["name"] for one in made["spec"]["ports"]] == [
            one["name"] for one in own["ports"]
        ]
        assert not any("nodePort" in one for one in made["spec"]["ports"])
        assert "clusterIP" not in made["spec"]
