"""The Route to the dashboard, on OpenShift: kept true where it is ours, left to the router elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.resources import ROUTES
from manta.controllers.raycluster.events import Cause
from manta.kube.errors import ApiError
from manta.rules.settings import Settings
from support.raycluster import ray_cluster
from support.raycluster_world import World, decode

Json = dict[str, Any]
OPENSHIFT = Settings(openshift=True)
SHOWN: Json = {"head": {"enableIngress": True}, "annotations": {"own": "yes"}}


def settled() -> World:
    world = World(decode(ray_cluster(**SHOWN)), OPENSHIFT)
    world.settle()
    # As the server and the router fill it in.
    route(world)["spec"] |= {"host": "demo.apps.example.com", "wildcardPolicy": "None"}
    route(world)["metadata"]["annotations"] |= {"openshift.io/host.generated": "true"}
    route(world)["status"] = {"ingress": [{"host": "demo.apps.example.com"}]}
    return world


def route(world: World) -> Json:
    return world.objects[ROUTES, "demo-head-route"]


def planned(world: World) -> list[Any]:
    return [one.cause for one in world.plan().actions]


def test_what_the_router_fills_in_is_no_drift() -> None:
    assert planned(settled()) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("to", {"kind": "Service", "name": "elsewhere", "weight": 100}),
        ("to", {"kind": "Service", "name": "demo-head-svc", "weight": 0}),
        ("to", {}),
        ("port", {"targetPort": "client"}),
        ("port", None),
    ],
)
def test_what_we_say_comes_back_and_the_rest_stays(field: str, value: Json | None) -> None:
    world = settled()
    certificate = {"termination": "edge"}
    route(world)["spec"]["tls"] = certificate
    before = dict(route(world)["spec"])
    del route(world)["spec"][field]
    if value is not None:
        route(world)["spec"][field] = value
    assert planned(world) == [Cause.ROUTE_DRIFT]
    world.round()
    assert route(world)["spec"] == before
    assert planned(world) == []


def test_labels_and_annotations_follow_the_cluster() -> None:
    world = settled()
    route(world)["metadata"]["labels"].pop("app.kubernetes.io/created-by")
    assert planned(world) == [Cause.ROUTE_DRIFT]
    world.round()
    world.set_spec(ray_cluster(**SHOWN), annotations={"new": "one"})
    assert planned(world) == [Cause.ROUTE_DRIFT]
    world.round()
    annotations = route(world)["metadata"]["annotations"]
    assert annotations["new"] == "one"
    assert "own" not in annotations
    assert annotations["openshift.io/host.generated"] == "true"
    assert planned(world) == []


def test_a_wildcard_policy_is_for_life_and_never_tried() -> None:
    world = settled()
    route(world)["spec"]["wildcardPolicy"] = "Subdomain"
    assert planned(world) == []


def test_a_route_that_nobody_controls_is_left_alone() -> None:
    world = settled()
    del route(world)["metadata"]["ownerReferences"]
    route(world)["spec"]["to"] = {"kind": "Service", "name": "own", "weight": 1}
    assert planned(world) == []


def test_a_route_that_cannot_be_mended_stops_nothing() -> None:
    world = settled()
    world.run_pods()
    world.settle()
    route(world)["spec"]["to"] = {}

    def no_route(action: Any) -> Exception | None:
        refused = action.cause == Cause.ROUTE_DRIFT
        return ApiError(403, "Forbidden", "no") if refused else None

    world.round(no_route)
    assert world.cluster.status.state == "ready"
    assert "demo-head-route" in str(world.cluster.status.conditions)
