"""The steps of an incremental upgrade, read off the world and taken one at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from manta.api.gateway import Gateway, GatewaySpec, HTTPRoute, HTTPRouteSpec
from manta.api.meta import ObjectMeta
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.api.times import format_time
from manta.controllers.rayservice.plan import plan
from manta.controllers.rayservice.planners.rollout import (
    next_shares,
    standing,
    what_gateway_waits_for,
)
from manta.controllers.rayservice.snapshot import NotAsked, ServiceSnapshot
from manta.controllers.rayservice.status import next_status
from manta.manifests.gateway import Backend, build_gateway, build_route
from manta.reconcile.actions import Call, Create, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from support.rayservice_objects import (
    NOW,
    a_cluster,
    a_service,
    a_sight,
    incremental,
    scaled_config,
    seen,
    told,
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
    return HTTPRoute(metadata=ObjectMeta(name="demo-httproute", uid="r"), spec=spec, status=status)


def gateway() -> Gateway:
    spec = msgspec.convert(build_gateway(a_service(), "manta")["spec"], GatewaySpec)
    said = [{"type": one, "status": "True"} for one in ("Accepted", "Programmed")]
    status = msgspec.convert({"conditions": said}, type(Gateway().status))
    return Gateway(metadata=ObjectMeta(name="demo-gateway", uid="g"), spec=spec, status=status)


def split(
    active: tuple[int, int],
    pending: tuple[int, int],
    *,
    moved: int = 60,
    image: str = NEXT,
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
    spec = {"rayClusterConfig": scaled_config(image), "upgradeStrategy": incremental()}
    old = a_cluster("demo-a", rayClusterConfig=scaled_config())
    new = a_cluster("demo-b", rayClusterConfig=scaled_config(NEXT))
    base = {
        "active": a_sight("demo-a", old),
        "pending": a_sight("demo-b", new),
        "gateway": gateway(),
        "route": route(a=active[1], b=pending[1]),
    }
    snapshot = seen(status, spec=spec, **{**base, **facts})
    # Both have been told what the status says.
    for side, share in (("active", active), ("pending", pending)):
        sight = getattr(snapshot, side)
        snapshot = replace(snapshot, **{side: told(snapshot, sight, share[0])})
    return snapshot


def shares(snapshot: ServiceSnapshot) -> tuple[int, int, int, int]:
    after = next_shares(snapshot)
    return (
        after.active.capacity,
        after.active.traffic,
        after.pending.capacity,
        after.pending.traffic,
    )


def test_the_pending_cluster_is_first_asked_for_capacity() -> None:
    snapshot = split((100, 100), (0, 0))
    assert shares(snapshot) == (100, 100, 50, 0)
    (call,) = [one for one in plan(snapshot).actions if isinstance(one, Call)]
    assert (call.key.name, call.arguments["config"]["target_capacity"]) == ("demo-b", 50)
    status = next_status(snapshot, UNTRIED)
    assert status.pending_service_status.target_capacity == 50


def test_a_share_that_was_refused_is_not_in_the_status() -> None:
    snapshot = split((100, 100), (0, 0))
    (call,) = [one for one in plan(snapshot).actions if isinstance(one, Call)]
    failed = Outcome(failures=(Failure(call, RuntimeError("no")),))
    assert next_status(snapshot, failed).pending_service_status.target_capacity == 0


def test_traffic_follows_once_the_pending_cluster_can_serve() -> None:
    snapshot = split((100, 100), (50, 0))
    assert shares(snapshot) == (100, 75, 50, 25)
    (patch,) = [one for one in plan(snapshot).actions if isinstance(one, Patch)][-1:]
    assert patch.resource == HTTP_ROUTES
    refs = patch.patch["spec"]["rules"][0]["backendRefs"]
    assert [one["weight"] for one in refs] == [75, 25]
    status = next_status(snapshot, UNTRIED)
    assert status.active_service_status.traffic_routed_percent == 75
    assert status.pending_service_status.traffic_routed_percent == 25


def test_a_pending_cluster_that_has_not_answered_since_it_was_asked_gets_no_traffic() -> None:
    fresh = split((100, 100), (50, 0))
    assert fresh.pending is not None
    silent = replace(fresh, pending=replace(fresh.pending, answer=NotAsked()))
    assert shares(silent) == (100, 100, 50, 0)


def test_no_step_before_its_interval_has_passed() -> None:
    snapshot = split((100, 75), (50, 25), moved=4)
    assert shares(snapshot) == (100, 75, 50, 25)
    wait = plan(snapshot).wait
    assert wait is not None
    assert wait.retry_in == timedelta(seconds=6)


def test_where_the_route_says_otherwise_the_route_is_right() -> None:
    """A step was taken, and the operator died before it could write it down."""
    snapshot = split((100, 75), (50, 25), route=route(a=50, b=50))
    now = standing(snapshot)
    assert (now.active.traffic, now.pending.traffic) == (50, 50)
    assert now.pending.moved_at == NOW


def test_the_old_cluster_gives_up_capacity_when_the_new_one_carries_its_part() -> None:
    assert shares(split((100, 50), (50, 50))) == (50, 50, 50, 50)


def test_capacity_is_not_given_up_before_a_gateway_can_have_followed() -> None:
    fresh = split((100, 50), (50, 50), moved=1)
    assert shares(fresh) == (100, 50, 50, 50)
    wait = plan(fresh).wait
    assert wait is not None
    assert wait.retry_in == timedelta(seconds=1)
    assert shares(split((50, 50), (50, 50), moved=1)) == (50, 50, 100, 50)  # more is no harm


def test_the_last_step_promotes() -> None:
    status = next_status(split((0, 0), (100, 100)), UNTRIED)
    assert status.active_service_status.ray_cluster_name == "demo-b"
    assert status.active_service_status.target_capacity == 100


def test_back_to_the_old_spec_walks_home() -> None:
    back = split((50, 50), (100, 50), image="rayproject/ray:2.60.0")
    assert standing(back).rolling_back
    assert shares(back) == (50, 50, 50, 50)
    conditions = {one.type: one.reason for one in next_status(back, UNTRIED).conditions}
    assert conditions["RollbackInProgress"] == "DesiredClusterSpecChanged"


def test_home_again_the_pending_cluster_is_forgotten() -> None:
    home = split((100, 100), (0, 0), image="rayproject/ray:2.60.0")
    status = next_status(home, UNTRIED)
    assert status.pending_service_status.ray_cluster_name == ""
    assert status.active_service_status.ray_cluster_name == "demo-a"


def test_a_third_spec_walks_home_as_well() -> None:
    third = split((50, 50), (100, 50), image="rayproject/ray:2.62.0")
    assert standing(third).rolling_back


def test_a_gateway_that_nobody_accepted_stops_every_step() -> None:
    waiting = split((100, 100), (0, 0), gateway=Gateway(metadata=ObjectMeta(name="demo-gateway")))
    assert "is not Accepted" in what_gateway_waits_for(waiting)
    assert shares(waiting) == (100, 100, 0, 0)
    wait = plan(waiting).wait
    assert wait is not None
    assert wait.retry_in == timedelta(seconds=2)


def test_a_route_of_another_gateway_does_not_count() -> None:
    foreign = route(a=100, b=0)
    parents = tuple(
        msgspec.structs.replace(one, parent_ref=msgspec.structs.replace(one.parent_ref, name="x"))
        for one in foreign.status.parents
    )
    other = msgspec.structs.replace(foreign, status=type(foreign.status)(parents=parents))
    assert "HTTPRoute is not Accepted" in what_gateway_waits_for(
        split((100, 100), (0, 0), route=other)
    )


def test_what_is_right_is_not_written() -> None:
    snapshot = split((100, 75), (50, 25), moved=4)
    written = [
        one
        for one in plan(snapshot).actions
        if getattr(one, "resource", None) in (GATEWAYS, HTTP_ROUTES, RAY_CLUSTERS)
    ]
    assert written == []


def test_a_first_start_makes_the_gateway_and_no_route_yet() -> None:
    spec = {"rayClusterConfig": scaled_config(), "upgradeStrategy": incremental()}
    status = {"pendingServiceStatus": {"rayClusterName": "demo-a", "targetCapacity": 100}}
    sight = a_sight("demo-a", a_cluster("demo-a", rayClusterConfig=scaled_config()))
    snapshot = seen(status, spec=spec, pending=sight)
    snapshot = replace(snapshot, pending=told(snapshot, sight, 100))
    made = [one.resource.kind for one in plan(snapshot).actions if isinstance(one, Create)]
    assert made == ["Service", "Service", "Gateway"]
    after = next_status(snapshot, UNTRIED)
    assert after.active_service_status.ray_cluster_name == "demo-a"
    assert after.active_service_status.traffic_routed_percent == 100


def test_a_missing_gateway_api_is_said_and_nothing_is_tried() -> None:
    snapshot = split((100, 100), (0, 0), gateway=None, route=None, gateway_trouble="not installed")
    kinds = {getattr(one, "resource", None) for one in plan(snapshot).actions}
    assert not kinds & {GATEWAYS, HTTP_ROUTES}
    told_ = {one.type: one.message for one in next_status(snapshot, UNTRIED).conditions}
    assert "not installed" in told_["UpgradeInProgress"]
