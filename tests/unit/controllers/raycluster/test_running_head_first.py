"""What runs goes before what the spec says: an edit of the head's template moves nothing that leads
to a running head (R1)."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.ray import names
from manta.api.resources import INGRESSES, NETWORK_POLICIES, PODS, ROUTES, SERVICES
from manta.controllers.raycluster.events import Cause
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import container, ray_cluster, template
from support.raycluster_world import World, decode

Json = dict[str, Any]
PORTS = (("gcs-server", 6379), ("dashboard", 8265), ("serve", 8000), ("extra", 9000))
SERVE = {"ray.io/enable-serve-service": "true"}
JOB = {
    names.LABEL_ORIGIN_KIND: "RayJob",
    names.LABEL_ORIGIN_NAME: "job",
    names.LABEL_JOB_SUBMISSION_MODE: "K8sJobMode",
}


def manifest(*ports: tuple[str, int], pod_labels: Json | None = None, **fields: Any) -> Json:
    declared = [{"name": name, "containerPort": number} for name, number in ports or PORTS]
    pod = template(container(ports=declared))
    if pod_labels:
        pod["metadata"] = {"labels": pod_labels}
    head = {"template": pod, "enableIngress": True}
    return ray_cluster(head=head, annotations=SERVE, **fields)


def settled(settings: Settings | None = None, **fields: Any) -> World:
    world = World(decode(manifest(**fields)), settings or Settings())
    world.settle()
    return world


def selects_its_head(world: World) -> bool:
    [head] = world.heads()
    selector = world.objects[SERVICES, "demo-head-svc"]["spec"]["selector"]
    return selector.items() <= head["metadata"]["labels"].items()


def ports_of(world: World, service: str = "demo-head-svc") -> dict[str, int]:
    ports = world.objects[SERVICES, service]["spec"]["ports"]
    return {one["name"]: one["port"] for one in ports}


def replace_head(world: World) -> None:
    [head] = world.heads()
    del world.objects[PODS, head["metadata"]["name"]]
    world.settle()


def test_the_head_service_selects_the_running_head_after_its_template_got_another_label() -> None:
    world = settled()
    world.set_spec(manifest(pod_labels={names.LABEL_APP_NAME: "mine", names.LABEL_IDENTIFIER: "x"}))
    world.settle()
    assert selects_its_head(world)
    replace_head(world)
    assert selects_its_head(world)
    selector = world.objects[SERVICES, "demo-head-svc"]["spec"]["selector"]
    assert (selector[names.LABEL_APP_NAME], selector[names.LABEL_IDENTIFIER]) == ("mine", "x")


def test_edited_ports_are_served_when_a_head_made_from_the_edit_is_there() -> None:
    world = settled()
    world.set_spec(manifest(("dashboard", 9265), ("gcs-server", 6380), ("serve", 8001)))
    world.settle()
    kept = {"dashboard": 8265, "gcs-server": 6379, "serve": 8000, "extra": 9000, "metrics": 8080}
    assert ports_of(world) == kept
    assert ports_of(world, "demo-serve-svc") == {"serve": 8000}
    assert world.cluster.status.endpoints["dashboard"] == "8265"
    replace_head(world)
    moved = {"dashboard": 9265, "gcs-server": 6380, "serve": 8001, "metrics": 8080}
    assert ports_of(world) == moved
    assert ports_of(world, "demo-serve-svc") == {"serve": 8001}
    assert world.cluster.status.endpoints["dashboard"] == "9265"


def test_a_port_that_the_spec_adds_is_served_at_once() -> None:
    world = settled()
    world.set_spec(manifest(*PORTS, ("jupyter", 8888)))
    world.settle()
    assert ports_of(world)["jupyter"] == 8888


def test_a_head_that_declares_no_port_keeps_rays_own() -> None:
    world = World(decode(ray_cluster()))
    world.settle()
    world.set_spec(manifest(("dashboard", 9265)))
    world.settle()
    assert ports_of(world)["dashboard"] == 8265


@pytest.mark.parametrize("openshift", [False, True])
def test_the_way_to_the_dashboard_leads_to_where_the_running_head_listens(openshift: bool) -> None:
    def target(world: World) -> Any:
        if openshift:
            return world.objects[ROUTES, "demo-head-route"]["spec"]["port"]["targetPort"]
        [rule] = world.objects[INGRESSES, "demo-head-ingress"]["spec"]["rules"]
        return rule["http"]["paths"][0]["backend"]["service"]["port"]["number"]

    world = settled(Settings(openshift=openshift))
    world.set_spec(manifest(("dashboard", 9265)))
    world.settle()
    assert target(world) == 8265
    replace_head(world)
    assert target(world) == 9265


def test_the_submitter_may_reach_the_dashboard_of_the_running_head() -> None:
    def port(world: World) -> int:
        ingress = world.objects[NETWORK_POLICIES, "demo-head"]["spec"]["ingress"]
        found: int = next(one for one in ingress if "ports" in one)["ports"][0]["port"]
        return found

    settings = Settings(gates=FeatureGates(ray_cluster_network_policy=True))
    closed: Json = {"networkPolicy": {"mode": "DenyAll"}, "labels": JOB}
    world = settled(settings, **closed)
    world.set_spec(manifest(("dashboard", 9265), **closed))
    world.settle()
    assert port(world) == 8265
    replace_head(world)
    assert port(world) == 9265


def test_a_head_that_is_being_deleted_is_still_reached() -> None:
    world = settled()
    [head] = world.heads()
    head["metadata"]["deletionTimestamp"] = "2026-11-15T09:00:00Z"
    world.set_spec(manifest(("dashboard", 9265), pod_labels={names.LABEL_APP_NAME: "mine"}))
    assert Cause.SERVICE_DRIFT not in [one.cause for one in world.plan().actions]


def test_the_ports_of_a_sidecar_that_was_injected_first_are_not_those_of_the_head() -> None:
    """Istio with `holdApplicationUntilProxyStarts` puts its container before all others."""
    world = settled()
    before = ports_of(world)
    [head] = world.heads()
    proxy = {"name": "istio-proxy", "ports": [{"name": "http-envoy-prom", "containerPort": 15090}]}
    head["spec"]["containers"].insert(0, proxy)
    world.settle()
    assert ports_of(world) == before
    world.set_spec(manifest(("dashboard", 9265), ("gcs-server", 6380), ("serve", 8001)))
    world.settle()
    assert ports_of(world) == before
