"""Where an incremental upgrade is, and whether its Gateway and HTTPRoute carry traffic.

`rules.upgrade` computes the steps. The HTTPRoute says where the traffic goes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from manta.api.conditions import is_true
from manta.api.gateway import HTTPRoute
from manta.api.ray.service import RayServiceStatus
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.facts.clusters import is_rolling_back
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.manifests.gateway import gateway_name, route_name
from manta.manifests.serve_services import cluster_serve_service_name
from manta.reconcile.actions import Call
from manta.reconcile.outcome import Outcome
from manta.rules.upgrade import Rollout, RolloutOptions, Share, next_traffic
from manta.rules.validation.service import max_surge

FAR_FUTURE: Final = datetime.max.replace(tzinfo=UTC)
"""A time at which every interval has passed."""


def current_rollout(snapshot: ServiceSnapshot) -> Rollout:
    """The shares that the status records, or those of the HTTPRoute if it is one step ahead."""
    options, status = snapshot.upgrade_options, snapshot.status
    steps = RolloutOptions(
        max_surge(options),
        options.step_size_percent or 0,
        timedelta(seconds=options.interval_seconds or 0),
    )
    active = _share(status.active_service_status, Share(100, 100))
    pending = _share(status.pending_service_status, Share(0, 0))
    recorded = Rollout(active, pending, steps, rolling_back=is_rolling_back(snapshot))
    return _with_unrecorded_step(snapshot, recorded)


def _share(side: RayServiceStatus, default: Share) -> Share:
    traffic, capacity = side.traffic_routed_percent, side.target_capacity
    return Share(
        default.capacity if capacity is None else capacity,
        default.traffic if traffic is None else traffic,
        parse_optional_time(side.last_traffic_migrated_time),
    )


def _with_unrecorded_step(snapshot: ServiceSnapshot, recorded: Rollout) -> Rollout:
    """The operator may crash after it changed the HTTPRoute and before it recorded that. Weights that
    are no such step were set by another client: then the recorded ones apply."""
    status = snapshot.status
    active = routed_weight(snapshot.route, status.active_service_status.ray_cluster_name)
    pending = routed_weight(snapshot.route, status.pending_service_status.ray_cluster_name)
    routed = (active, pending)
    if active is None or pending is None or routed == _weights(recorded):
        return recorded
    steps = [
        next_traffic(replace(recorded, rolling_back=back), FAR_FUTURE, gaining_is_ready=True)
        for back in (False, True)
    ]
    if routed not in [_weights(step) for step in steps]:
        return recorded
    return replace(
        recorded,
        active=replace(recorded.active, traffic=active, moved_at=snapshot.now),
        pending=replace(recorded.pending, traffic=pending, moved_at=snapshot.now),
    )


def _weights(rollout: Rollout) -> tuple[int, int]:
    return rollout.active.traffic, rollout.pending.traffic


def routed_weight(route: HTTPRoute | None, cluster: str) -> int | None:
    """The weight of a cluster in the HTTPRoute; None: it has none."""
    rules = route.spec.rules if route is not None else ()
    name = cluster_serve_service_name(cluster)
    refs = (ref for rule in rules for ref in rule.backend_refs if ref.name == name)
    return next((ref.weight for ref in refs), None)


def gateway_not_ready(snapshot: ServiceSnapshot) -> str:
    """Why Gateway and HTTPRoute cannot be relied on yet; empty if they can."""
    if snapshot.gateway_error:
        return snapshot.gateway_error
    name = gateway_name(snapshot.service)
    conditions = snapshot.gateway.status.conditions if snapshot.gateway else ()
    for type_ in ("Accepted", "Programmed"):
        if not is_true(conditions, type_):
            return f"Gateway {name} is not {type_} yet by its controller"
    parents = snapshot.route.status.parents if snapshot.route else ()
    ours = [one for one in parents if one.parent_ref.name == name]
    for type_ in ("Accepted", "ResolvedRefs"):
        if not any(is_true(one.conditions, type_) for one in ours):
            return f"the HTTPRoute is not {type_} yet by Gateway {name}"
    return ""


def missing_route(snapshot: ServiceSnapshot, outcome: Outcome) -> str:
    """Which missing object keeps requests away although the status says that traffic is routed;
    empty if none does, or this reconcile has just created it."""
    active, pending = snapshot.status.active_service_status, snapshot.status.pending_service_status
    if not snapshot.is_incremental or active.traffic_routed_percent is None:
        return ""
    if snapshot.gateway_error:
        return snapshot.gateway_error
    done = {one.action.resource for one in outcome.done if not isinstance(one.action, Call)}
    if snapshot.gateway is None and GATEWAYS not in done:
        name = gateway_name(snapshot.service)
        return f"there is no Gateway {name}: no request reaches the service"
    name = route_name(snapshot.service)
    if HTTP_ROUTES in done:
        return ""
    if snapshot.route is None:
        return f"there is no HTTPRoute {name}: no request reaches the service"
    if not any(routed_weight(snapshot.route, side.ray_cluster_name) for side in (active, pending)):
        return f"HTTPRoute {name} sends no request to the service"
    return ""
