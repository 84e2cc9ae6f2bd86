"""What a RayService waits for, in words that name it: for conditions, `manta get` and people."""

from __future__ import annotations

from datetime import timedelta

from manta.api.ray.service import RayServiceStatus, RayServiceStatuses, ServiceUpgradeType
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.planners.clusters import fits, is_rolling_back
from manta.controllers.rayservice.planners.rollout import what_gateway_waits_for
from manta.controllers.rayservice.planners.serve import (
    current_order,
    is_told,
    obstacle_to_serving,
)
from manta.controllers.rayservice.snapshot import NotAsked, ServiceSnapshot
from manta.kube.errors import Conflict, Unreachable
from manta.reconcile.outcome import Outcome


def what_ready_waits_for(
    seen: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome
) -> str:
    """Why no Pod takes requests through the serve Service yet."""
    refused = _refusal(outcome)
    if refused:
        return refused
    pending, active = status.pending_service_status, status.active_service_status
    if seen.gateway_trouble:
        return seen.gateway_trouble
    if active.ray_cluster_name and not pending.ray_cluster_name:
        return _cluster(seen, active) or "waiting for the first endpoint of the serve Service"
    return _cluster(seen, pending) or "waiting for the serve Service"


def what_serving_lacks(seen: ServiceSnapshot) -> str:
    """Requests are taken, and yet something is wrong with the applications behind them."""
    active = seen.active
    if active is None or isinstance(active.answer, NotAsked):
        return ""
    order = current_order(seen, active)
    return obstacle_to_serving(active, order) if is_told(active, order) else ""


def what_upgrade_waits_for(
    seen: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome
) -> str:
    refused = _refusal(outcome)
    if refused:
        return refused
    pending = status.pending_service_status
    if pending.ray_cluster_name and seen.is_incremental:
        return _shares(seen, status) + _next_step(seen, status)
    if pending.ray_cluster_name:
        return _cluster(seen, pending) or f"RayCluster {pending.ray_cluster_name} is ready"
    if seen.gateway_trouble:
        return seen.gateway_trouble
    if seen.strategy == ServiceUpgradeType.NONE and not fits(seen, seen.active):
        return "the cluster spec has changed, and the upgrade strategy leaves the cluster as it is"
    return "the active cluster is what the spec wants"


def _shares(seen: ServiceSnapshot, status: RayServiceStatuses) -> str:
    """How far a split has come, and what its ways in wait for."""
    sides = (status.active_service_status, status.pending_service_status)
    told = "; ".join(
        f"{side.ray_cluster_name}: {side.traffic_routed_percent or 0} % of the traffic,"
        f" {side.target_capacity or 0} % of the capacity"
        for side in sides
    )
    gateway = what_gateway_waits_for(seen)
    return f"{told}; " + (f"{gateway}; " if gateway else "")


def _next_step(seen: ServiceSnapshot, status: RayServiceStatuses) -> str:
    """What keeps the next step back, or when it is due. Equal until the step is taken."""
    back = is_rolling_back(seen)
    gaining = status.active_service_status if back else status.pending_service_status
    obstacle = "" if back else _cluster(seen, gaining)
    traffic, capacity = gaining.traffic_routed_percent or 0, gaining.target_capacity or 0
    if obstacle or traffic == capacity:
        return obstacle or "capacity moves once the Gateway has surely followed the last step"
    options = seen.upgrade_options
    goal = min(100, traffic + (options.step_size_percent or 0), capacity)
    moved = parse_optional_time(gaining.last_traffic_migrated_time)
    due = moved + timedelta(seconds=options.interval_seconds or 0) if moved else None
    at = f" at {due:%H:%M:%S}" if due else ""
    return f"next, RayCluster {gaining.ray_cluster_name} gets {goal} % of the traffic{at}"


def _cluster(seen: ServiceSnapshot, side: RayServiceStatus) -> str:
    sight = seen.sight_of(side.ray_cluster_name)
    if sight is None:
        return f"RayCluster {side.ray_cluster_name} is about to be created"
    return obstacle_to_serving(sight, current_order(seen, sight))


def _refusal(outcome: Outcome) -> str:
    """What the API server or Ray said no to; what will pass by itself is not worth telling."""
    failure = outcome.failure
    if failure is None or isinstance(failure.error, Conflict | Unreachable):
        return ""
    return f"{failure.action.key}: {failure.error}"
