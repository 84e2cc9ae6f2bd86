"""The Route to the dashboard, on OpenShift: kept true where it is ours, left to the router elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.resources import ROUTES
from manta.controllers.raycluster.events import Cause
from manta.kube.errors import ApiError
from manta.rules.settings import Settings
from support.raycluster import ray_cluster
from support.raycluster_scenario import Scenario, decode

Json = dict[str, Any]
OPENSHIFT = Settings(openshift=True)
SHOWN: Json = {"head": {"enableIngress": True}, "annotations": {"own": "yes"}}


def settled() -> Scenario:
    scenario = Scenario(decode(ray_cluster(**SHOWN)), OPENSHIFT)
    scenario.settle()
    # As the server and the router fill it in.
    route(scenario)["spec"] |= {"host": "demo.apps.example.com", "wildcardPolicy": "None"}
    route(scenario)["metadata"]["annotations"] |= {"openshift.io/host.generated": "true"}
    route(scenario)["status"] = {"ingress": [{"host": "demo.apps.example.com"}]}
    return scenario


def route(scenario: Scenario) -> Json:
    return scenario.objects[ROUTES, "demo-head-route"]


def planned(scenario: Scenario) -> list[Any]:
    return [one.cause for one in scenario.plan().actions]


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
    scenario = settled()
    certificate = {"termination": "edge"}
    route(scenario)["spec"]["tls"] = certificate
    before = dict(route(scenario)["spec"])
    del route(scenario)["spec"][field]
    if value is not None:
        route(scenario)["spec"][field] = value
    assert planned(scenario) == [Cause.ROUTE_DRIFT]
    scenario.reconcile()
    assert route(scenario)["spec"] == before
    assert planned(scenario) == []


def test_labels_and_annotations_follow_the_cluster() -> None:
    scenario = settled()
    route(scenario)["metadata"]["labels"].pop("app.kubernetes.io/created-by")
    assert planned(scenario) == [Cause.ROUTE_DRIFT]
    scenario.reconcile()
    scenario.set_spec(ray_cluster(**SHOWN), annotations={"new": "one"})
    assert planned(scenario) == [Cause.ROUTE_DRIFT]
    scenario.reconcile()
    annotations = route(scenario)["metadata"]["annotations"]
    assert annotations["new"] == "one"
    assert "own" not in annotations
    assert annotations["openshift.io/host.generated"] == "true"
    assert planned(scenario) == []


def test_a_wildcard_policy_is_for_life_and_never_tried() -> None:
    scenario = settled()
    route(scenario)["spec"]["wildcardPolicy"] = "Subdomain"
    assert planned(scenario) == []


def test_a_route_that_nobody_controls_is_left_alone() -> None:
    scenario = settled()
    del route(scenario)["metadata"]["ownerReferences"]
    route(scenario)["spec"]["to"] = {"kind": "Service", "name": "own", "weight": 1}
    assert planned(scenario) == []


def test_a_route_that_cannot_be_repaired_stops_nothing() -> None:
    scenario = settled()
    scenario.run_pods()
    scenario.settle()
    route(scenario)["spec"]["to"] = {}

    def no_route(action: Any) -> Exception | None:
        refused = action.cause == Cause.ROUTE_DRIFT
        return ApiError(403, "Forbidden", "no") if refused else None

    scenario.reconcile(no_route)
    assert scenario.cluster.status.state == "ready"
    assert "demo-head-route" in str(scenario.cluster.status.conditions)
