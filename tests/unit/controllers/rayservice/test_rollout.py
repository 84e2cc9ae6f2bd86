"""The steps of an incremental upgrade, derived from the objects and taken one at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.gateway import Gateway, GatewaySpec, HTTPRoute, HTTPRouteSpec
from manta.api.meta import ObjectMeta, Uid
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.api.times import format_time
from manta.controllers.rayservice.facts.rollout import current_rollout, gateway_not_ready
from manta.controllers.rayservice.plan import plan
from manta.controllers.rayservice.planners.gateway import plan_gateway
from manta.controllers.rayservice.planners.rollout import next_rollout
from manta.controllers.rayservice.snapshot import NotQueried, ServiceSnapshot
from manta.manifests.gateway import Backend, build_gateway, build_route
from manta.manifests.serve_services import build_cluster_serve_service
from manta.reconcile.actions import Call, Create, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from support.rayservice_objects import (
    NOW,
    a_cluster,
    a_service,
    a_snapshot,
    a_view,
    incremental,
    planned,
    scaled_config,
    status_after,
    with_submission,
)

NEXT = "rayproject/ray:2.61.0"


def route(**weights: int) -> HTTPRoute:
    backends = [Backend(f"demo-{name}-serve-svc", 8000, weight) for name, weight in weights.items()]
    manifest = build_route(a_service(), backends)
    parents = [
        {
            "parentRef": {"name": "demo-gateway"},
            "conditions": [{"type": one, "status": "True"} for one in ("Accepted", "ResolvedRefs")],
        }
    ]
    status = msgspec.convert({"parents": parents}, type(HTTPRoute().status))
    spec = msgspec.convert(manifest["spec"], HTTPRouteSpec)
    return HTTPRoute(
        metadata=ObjectMeta(name="demo-httproute", uid=Uid("r")), spec=spec, status=status
    )


def gateway() -> Gateway:
    spec = msgspec.convert(build_gateway(a_service(), "manta")["spec"], GatewaySpec)
    said = [{"type": one, "status": "True"} for one in ("Accepted", "Programmed")]
    status = msgspec.convert({"conditions": said}, type(Gateway().status))
    return Gateway(metadata=ObjectMeta(name="demo-gateway", uid=Uid("g")), spec=spec, status=status)


def split(
    active: tuple[int, int],
    pending: tuple[int, int],
    *,
    moved: int = 60,
    image: str = NEXT,
    step: int = 25,
    **facts: Any,
) -> ServiceSnapshot:
    """Both clusters as (capacity, traffic); the last step was so many seconds ago."""
    when = format_time(NOW - timedelta(seconds=moved))
    status = {
        f"{side}ServiceStatus": {
            "rayClusterName": name,
            "targetCapacity": capacity,
            "trafficRoutedPercent": traffic,
            "lastTrafficMigratedTime": when,
        }
        for side, name, (capacity, traffic) in (
            ("active", "demo-a", active),
            ("pending", "demo-b", pending),
        )
    }
    spec = {"rayClusterConfig": scaled_config(image), "upgradeStrategy": incremental(step)}
    old = a_cluster("demo-a", rayClusterConfig=scaled_config())
    new = a_cluster("demo-b", rayClusterConfig=scaled_config(NEXT))
    base = {
        "active": a_view("demo-a", old),
        "pending": a_view("demo-b", new),
        "gateway": gateway(),
        "route": route(a=active[1], b=pending[1]),
    }
    snapshot = a_snapshot(status, spec=spec, **{**base, **facts})
    # Both clusters have the config and the capacity of the status.
    for side, share in (("active", active), ("pending", pending)):
        view = getattr(snapshot, side)
        submitted: dict[str, Any] = {side: with_submission(snapshot, view, share[0])}
        snapshot = replace(snapshot, **submitted)
    return snapshot


def shares(snapshot: ServiceSnapshot) -> tuple[int, int, int, int]:
    after = next_rollout(snapshot)
    return (
        after.active.capacity,
        after.active.traffic,
        after.pending.capacity,
        after.pending.traffic,
    )


def test_the_pending_cluster_first_gets_capacity() -> None:
    snapshot = split((100, 100), (0, 0))
    assert shares(snapshot) == (100, 100, 50, 0)
    (call,) = [one for one in planned(snapshot).actions if isinstance(one, Call)]
    assert (call.key.name, call.arguments["config"]["target_capacity"]) == ("demo-b", 50)
    status = status_after(snapshot, UNTRIED)
    assert status.pending_service_status.target_capacity == 50


def test_a_refused_target_capacity_is_not_in_the_status() -> None:
    snapshot = split((100, 100), (0, 0))
    (call,) = [one for one in planned(snapshot).actions if isinstance(one, Call)]
    failed = Outcome(failures=(Failure(call, RuntimeError("no")),))
    assert status_after(snapshot, failed).pending_service_status.target_capacity == 0


def test_traffic_follows_once_the_pending_cluster_can_serve() -> None:
    snapshot = split((100, 100), (50, 0))
    assert shares(snapshot) == (100, 75, 50, 25)
    (patch,) = [one for one in planned(snapshot).actions if isinstance(one, Patch)][-1:]
    assert patch.resource == HTTP_ROUTES
    refs = patch.patch["spec"]["rules"][0]["backendRefs"]
    assert [one["weight"] for one in refs] == [75, 25]
    status = status_after(snapshot, UNTRIED)
    assert status.active_service_status.traffic_routed_percent == 75
    assert status.pending_service_status.traffic_routed_percent == 25


def test_a_pending_cluster_without_a_newer_answer_gets_no_traffic() -> None:
    fresh = split((100, 100), (50, 0))
    assert fresh.pending is not None
    silent = replace(fresh, pending=replace(fresh.pending, answer=NotQueried()))
    assert shares(silent) == (100, 100, 50, 0)


def test_no_step_before_its_interval_has_passed() -> None:
    snapshot = split((100, 75), (50, 25), moved=4)
    assert shares(snapshot) == (100, 75, 50, 25)
    assert plan(snapshot).wakeup == timedelta(seconds=6)


def test_a_route_one_step_ahead_of_the_status_counts() -> None:
    """The operator crashed after a step and before it recorded it."""
    snapshot = split((100, 75), (50, 25), route=route(a=50, b=50))
    now = current_rollout(snapshot)
    assert (now.active.traffic, now.pending.traffic) == (50, 50)
    assert now.pending.moved_at == NOW


def test_the_old_cluster_loses_capacity_after_its_traffic() -> None:
    assert shares(split((100, 50), (50, 50))) == (50, 50, 50, 50)


def test_capacity_is_kept_until_the_gateway_has_settled() -> None:
    fresh = split((100, 50), (50, 50), moved=1)
    assert shares(fresh) == (100, 50, 50, 50)
    assert plan(fresh).wakeup == timedelta(seconds=1)
    assert shares(split((50, 50), (50, 50), moved=1)) == (50, 50, 100, 50)  # more is no harm


def test_a_cluster_that_requests_return_to_grows_at_once() -> None:
    assert shares(split((50, 50), (50, 50), moved=1, image="rayproject/ray:2.60.0")) == (
        100,
        50,
        50,
        50,
    )


@pytest.mark.parametrize(("step", "next_share"), [(10, 35), (40, 50), (0, 25)])
def test_the_message_names_the_share_that_the_next_step_gives(step: int, next_share: int) -> None:
    """At most the capacity; with steps of 0 % the traffic stays."""
    snapshot = split((100, 75), (50, 25), moved=4, step=step)
    messages = {one.type: one.message for one in status_after(snapshot).conditions}
    assert messages["UpgradeInProgress"].endswith(
        f"next, RayCluster demo-b gets {next_share} % of the traffic at 12:00:06"
    )


def test_the_last_step_promotes() -> None:
    status = status_after(split((0, 0), (100, 100)), UNTRIED)
    assert status.active_service_status.ray_cluster_name == "demo-b"
    assert status.active_service_status.target_capacity == 100


def test_the_old_spec_rolls_back() -> None:
    back = split((50, 50), (100, 50), image="rayproject/ray:2.60.0")
    assert current_rollout(back).rolling_back
    assert shares(back) == (50, 50, 50, 50)
    conditions = {one.type: one.reason for one in status_after(back, UNTRIED).conditions}
    assert conditions["RollbackInProgress"] == "DesiredClusterSpecChanged"


def test_a_finished_rollback_drops_the_pending_cluster() -> None:
    home = split((100, 100), (0, 0), image="rayproject/ray:2.60.0")
    status = status_after(home, UNTRIED)
    assert status.pending_service_status.ray_cluster_name == ""
    assert status.active_service_status.ray_cluster_name == "demo-a"


def test_a_third_spec_rolls_back_first() -> None:
    third = split((50, 50), (100, 50), image="rayproject/ray:2.62.0")
    assert current_rollout(third).rolling_back


def test_an_unaccepted_gateway_stops_every_step() -> None:
    waiting = split((100, 100), (0, 0), gateway=Gateway(metadata=ObjectMeta(name="demo-gateway")))
    assert "is not Accepted" in gateway_not_ready(waiting)
    assert shares(waiting) == (100, 100, 0, 0)
    assert plan(waiting).wakeup == timedelta(seconds=2)


def test_a_route_of_another_gateway_does_not_count() -> None:
    foreign = route(a=100, b=0)
    parents = tuple(
        msgspec.structs.replace(one, parent_ref=msgspec.structs.replace(one.parent_ref, name="x"))
        for one in foreign.status.parents
    )
    other = msgspec.structs.replace(foreign, status=type(foreign.status)(parents=parents))
    assert "HTTPRoute is not Accepted" in gateway_not_ready(split((100, 100), (0, 0), route=other))


def test_correct_objects_are_not_written() -> None:
    snapshot = split((100, 75), (50, 25), moved=4)
    written = [
        one
        for one in planned(snapshot).actions
        if getattr(one, "resource", None) in (GATEWAYS, HTTP_ROUTES, RAY_CLUSTERS)
    ]
    assert written == []


@pytest.mark.parametrize(("namespace", "writes"), [("default", 0), ("elsewhere", 1)])
def test_a_route_that_names_the_namespace_of_its_backends_is_right_if_it_is_ours(
    namespace: str, writes: int
) -> None:
    named = route(a=75, b=25)
    rules = tuple(
        msgspec.structs.replace(
            rule,
            backend_refs=tuple(
                msgspec.structs.replace(one, namespace=namespace) for one in rule.backend_refs
            ),
        )
        for rule in named.spec.rules
    )
    named = msgspec.structs.replace(named, spec=msgspec.structs.replace(named.spec, rules=rules))
    snapshot = split((100, 75), (50, 25), moved=4, route=named)
    written = [one.resource for one in planned(snapshot).actions if isinstance(one, Patch)]
    assert written.count(HTTP_ROUTES) == writes


def test_a_service_without_traffic_yet_does_not_miss_its_gateway() -> None:
    def ready(**facts: Any) -> str:
        spec = {"rayClusterConfig": scaled_config(), "upgradeStrategy": incremental()}
        view = a_view("demo-a", a_cluster("demo-a", rayClusterConfig=scaled_config()))
        endpoints = {"demo-a-serve-svc": frozenset("a")}
        side = {"rayClusterName": "demo-a", **facts}
        snapshot = a_snapshot(
            {"activeServiceStatus": side}, spec=spec, active=view, endpoints=endpoints
        )
        found = next(one for one in status_after(snapshot).conditions if one.type == "Ready")
        return found.message

    assert "there is no Gateway demo-gateway" in ready(trafficRoutedPercent=100)
    assert "no Gateway" not in ready()


def test_a_first_start_creates_the_gateway_and_no_route_yet() -> None:
    spec = {"rayClusterConfig": scaled_config(), "upgradeStrategy": incremental()}
    status = {"pendingServiceStatus": {"rayClusterName": "demo-a", "targetCapacity": 100}}
    view = a_view("demo-a", a_cluster("demo-a", rayClusterConfig=scaled_config()))
    snapshot = a_snapshot(status, spec=spec, pending=view)
    snapshot = replace(snapshot, pending=with_submission(snapshot, view, 100))
    made = [one.resource.kind for one in planned(snapshot).actions if isinstance(one, Create)]
    assert made == ["Service", "Service", "Gateway"]
    after = status_after(snapshot, UNTRIED)
    assert after.active_service_status.ray_cluster_name == "demo-a"
    assert after.active_service_status.traffic_routed_percent == 100


def test_a_missing_gateway_api_is_reported_and_nothing_is_tried() -> None:
    snapshot = split((100, 100), (0, 0), gateway=None, route=None, gateway_error="not installed")
    kinds = {getattr(one, "resource", None) for one in planned(snapshot).actions}
    assert not kinds & {GATEWAYS, HTTP_ROUTES}
    told_ = {one.type: one.message for one in status_after(snapshot, UNTRIED).conditions}
    assert "not installed" in told_["UpgradeInProgress"]


def test_a_gateway_that_cannot_be_changed_stops_nothing_else() -> None:
    """The Service may lack the permission: the stages after it still run."""
    old = msgspec.structs.replace(gateway().spec, gateway_class_name="other")
    snapshot = a_snapshot(
        spec={"upgradeStrategy": incremental()},
        gateway=msgspec.structs.replace(gateway(), spec=old),
    )
    [stage] = plan_gateway(snapshot).stages
    assert isinstance(stage.actions[0], Patch)
    assert stage.independent


@pytest.mark.parametrize(("wished", "type_"), [("", "ClusterIP"), ("NodePort", "NodePort")])
def test_the_service_of_a_cluster_has_the_type_of_the_head_service(wished: str, type_: str) -> None:
    config = scaled_config(head={"serviceType": wished})
    cluster = a_cluster("demo-b", rayClusterConfig=config)
    manifest = build_cluster_serve_service(a_service(), cluster)
    assert (manifest["kind"], manifest["spec"]["type"]) == ("Service", type_)
