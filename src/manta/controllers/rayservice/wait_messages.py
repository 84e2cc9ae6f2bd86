"""Messages that say what a RayService waits for, for its conditions."""

from __future__ import annotations

from datetime import timedelta

from manta.api.ray.service import RayServiceStatus, RayServiceStatuses, ServiceUpgradeType
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.canary_messages import canary_message, rejected_message
from manta.controllers.rayservice.facts.clusters import is_rolling_back, matches_spec, rejection
from manta.controllers.rayservice.facts.rollout import gateway_not_ready
from manta.controllers.rayservice.facts.serve import (
    current_desired_serve,
    is_submitted,
    serving_obstacle,
)
from manta.controllers.rayservice.snapshot import NotQueried, ServiceSnapshot
from manta.reconcile.failures import blockage_of, is_routine
from manta.reconcile.outcome import Outcome


def not_ready_message(
    snapshot: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome
) -> str:
    """Why no Pod takes requests from the serve Service yet."""
    error = _action_error(outcome)
    if error:
        return error
    pending, active = status.pending_service_status, status.active_service_status
    if snapshot.gateway_error:
        return snapshot.gateway_error
    if not active.ray_cluster_name:
        return _cluster(snapshot, pending) or "waiting for the serve Service"
    if pending.ray_cluster_name and snapshot.active is None:
        why = f"RayCluster {active.ray_cluster_name} is gone"
    else:
        first = "waiting for the first endpoint of the serve Service"
        why = _cluster(snapshot, active) or first
    upgrade = _cluster(snapshot, pending) if pending.ray_cluster_name else ""
    return f"{why}; its successor: {upgrade}" if upgrade else why


def degraded_message(snapshot: ServiceSnapshot) -> str:
    """What is wrong with the applications although the service takes requests; empty if nothing."""
    active = snapshot.active
    if active is None or isinstance(active.answer, NotQueried):
        return ""
    desired = current_desired_serve(snapshot, active)
    return serving_obstacle(active, desired) if is_submitted(active, desired) else ""


def upgrade_message(snapshot: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome) -> str:
    error = _action_error(outcome)
    if error:
        return error
    pending = status.pending_service_status
    if pending.ray_cluster_name and snapshot.is_canary:
        return canary_message(snapshot, status)
    if pending.ray_cluster_name and snapshot.is_incremental:
        return _shares(snapshot, status) + _next_step(snapshot, status)
    if pending.ray_cluster_name:
        return _cluster(snapshot, pending) or f"RayCluster {pending.ray_cluster_name} is ready"
    if snapshot.gateway_error:
        return snapshot.gateway_error
    if why := rejection(snapshot):
        return rejected_message(snapshot, why)
    if snapshot.strategy == ServiceUpgradeType.NONE and not matches_spec(snapshot, snapshot.active):
        return "the cluster spec changed, and the upgrade strategy None keeps the cluster"
    return "the active cluster matches the spec"


def _shares(snapshot: ServiceSnapshot, status: RayServiceStatuses) -> str:
    """The current shares, and what the Gateway waits for."""
    sides = (status.active_service_status, status.pending_service_status)
    reported = "; ".join(
        f"{side.ray_cluster_name}: {side.traffic_routed_percent or 0} % of the traffic,"
        f" {side.target_capacity or 0} % of the capacity"
        for side in sides
    )
    gateway = gateway_not_ready(snapshot)
    return f"{reported}; " + (f"{gateway}; " if gateway else "")


def _next_step(snapshot: ServiceSnapshot, status: RayServiceStatuses) -> str:
    """Why the next step must wait, or when it is due. The same text until the step is taken."""
    back = is_rolling_back(snapshot)
    gaining = status.active_service_status if back else status.pending_service_status
    obstacle = "" if back else _cluster(snapshot, gaining)
    traffic, capacity = gaining.traffic_routed_percent or 0, gaining.target_capacity or 0
    if obstacle or traffic == capacity:
        return obstacle or "capacity moves once the Gateway has applied the last step"
    options = snapshot.upgrade_options
    goal = min(100, traffic + (options.step_size_percent or 0), capacity)
    moved = parse_optional_time(gaining.last_traffic_migrated_time)
    due = moved + timedelta(seconds=options.interval_seconds or 0) if moved else None
    at = f" at {due:%H:%M:%S}" if due else ""
    return f"next, RayCluster {gaining.ray_cluster_name} gets {goal} % of the traffic{at}"


def _cluster(snapshot: ServiceSnapshot, side: RayServiceStatus) -> str:
    view = snapshot.view_of(side.ray_cluster_name)
    if view is None:
        return f"RayCluster {side.ray_cluster_name} is about to be created"
    return serving_obstacle(view, current_desired_serve(snapshot, view))


def _action_error(outcome: Outcome) -> str:
    """The error of an action that failed; empty for errors that pass by themselves."""
    failure = outcome.failure
    return "" if failure is None or is_routine(failure) else blockage_of(failure).message
