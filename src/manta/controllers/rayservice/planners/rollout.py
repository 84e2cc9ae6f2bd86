"""An incremental upgrade: moves capacity and traffic between two clusters in steps, also back.

Each step builds on what the last one recorded, so that a crash repeats a step and never skips one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from manta.api.ray.service import RayServiceStatuses
from manta.api.times import format_time_rounded_up
from manta.controllers.rayservice.facts.rollout import current_rollout, gateway_not_ready
from manta.controllers.rayservice.facts.serve import (
    can_submit,
    desired_serve,
    is_submitted,
    serving_obstacle,
)
from manta.controllers.rayservice.planners.gateway import plan_gateway, plan_route
from manta.controllers.rayservice.planners.serve import plan_submission
from manta.controllers.rayservice.planners.services import (
    plan_cluster_serve_service,
    plan_head_service,
    plan_stable_serve_service,
)
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.status_changes import (
    ServiceStep,
    promoted,
    with_active,
    with_pending,
    without_pending,
)
from manta.reconcile.plan import NOTHING, Plan
from manta.reconcile.step import Step, change_status_after, earliest, join
from manta.rules.upgrade import Rollout, Share, due_in, next_capacity, next_traffic

SETTLING = timedelta(seconds=2)
"""How long a gateway may take to apply new weights. Until then the old cluster keeps its capacity."""
RECHECK_AFTER = timedelta(seconds=2)
"""Gateway and HTTPRoute are read again after this, until their watches have started."""

Part = ServiceStep | Plan


def plan_incremental(snapshot: ServiceSnapshot) -> tuple[Part, ...]:
    if snapshot.active is None or snapshot.active.is_deleting:
        return _first_cluster(snapshot, snapshot.pending) if snapshot.pending else ()
    if snapshot.pending is None or snapshot.pending.is_deleting:
        return _single_cluster(snapshot, snapshot.active)
    return _two_clusters(snapshot, snapshot.active, snapshot.pending)


# ── one cluster ──────────────────────────────────────────────────────────────────────────


def _first_cluster(snapshot: ServiceSnapshot, view: ClusterView) -> tuple[Part, ...]:
    """Promote the pending cluster, with all traffic, once it can serve."""
    desired = desired_serve(snapshot, view, 100)
    submission = plan_submission(snapshot, view, desired)
    if serving_obstacle(view, desired, is_first=True):
        return (submission,)
    service, *others = _entrances(snapshot, view)
    promotion = change_status_after(NOTHING, _promoted_with_all, requires=service.actions)
    return (service, *others, submission, promotion)


def _single_cluster(snapshot: ServiceSnapshot, view: ClusterView) -> tuple[Part, ...]:
    """Route all traffic to the active cluster."""
    capacity = snapshot.status.active_service_status.target_capacity
    submission = plan_submission(snapshot, view, desired_serve(snapshot, view, capacity))
    route = _route_step(snapshot, Share(100, 100), None)
    return (*_entrances(snapshot, view), route, submission)


def _entrances(snapshot: ServiceSnapshot, view: ClusterView) -> tuple[Plan, ...]:
    """The Services of one cluster, its own serve Service first, and the Gateway."""
    return (
        plan_cluster_serve_service(snapshot, view),
        plan_head_service(snapshot, view),
        plan_stable_serve_service(snapshot, view),
        plan_gateway(snapshot),
    )


def _promoted_with_all(status: RayServiceStatuses) -> RayServiceStatuses:
    return promoted(with_pending(status, target_capacity=100, traffic_routed_percent=100))


# ── two clusters ─────────────────────────────────────────────────────────────────────────


def _two_clusters(
    snapshot: ServiceSnapshot, active: ClusterView, pending: ClusterView
) -> tuple[Part, ...]:
    now = current_rollout(snapshot)
    if now.is_finished:
        head = plan_head_service(snapshot, pending)
        stable = plan_stable_serve_service(snapshot, pending)
        return (head, stable, change_status_after(NOTHING, promoted))
    if _is_rolled_back(now, pending):
        return (change_status_after(NOTHING, without_pending),)
    rollout = next_rollout(snapshot)
    # The stable Service follows the traffic before the old cluster loses its last capacity.
    stable_target = pending if now.pending.traffic == 100 else active
    return (
        plan_cluster_serve_service(snapshot, active),
        plan_cluster_serve_service(snapshot, pending),
        plan_head_service(snapshot, active),
        plan_stable_serve_service(snapshot, stable_target),
        plan_gateway(snapshot),
        _route_step(snapshot, rollout.active, rollout.pending),
        _capacity_step(snapshot, active, now.active, rollout.active, with_active),
        _capacity_step(snapshot, pending, now.pending, rollout.pending, with_pending),
        Step(wake_in=_next_check(snapshot, rollout)),
    )


def next_rollout(snapshot: ServiceSnapshot) -> Rollout:
    """The shares after this reconcile if all its actions succeed: at most one step further."""
    now = current_rollout(snapshot)
    if gateway_not_ready(snapshot):
        return now
    further = next_capacity(now)
    if further != now:
        must_wait = _settling_time_left(snapshot, now) and _reduces_capacity(now, further)
        return now if must_wait else further
    return next_traffic(now, snapshot.now, gaining_is_ready=_gaining_is_ready(snapshot, now))


def _reduces_capacity(now: Rollout, further: Rollout) -> bool:
    return (
        further.active.capacity < now.active.capacity
        or further.pending.capacity < now.pending.capacity
    )


def _settling_time_left(snapshot: ServiceSnapshot, now: Rollout) -> timedelta | None:
    """How long until the gateway has applied the last weights; None if it has."""
    moved = max((one.moved_at for one in (now.active, now.pending) if one.moved_at), default=None)
    left = moved + SETTLING - snapshot.now if moved is not None else timedelta(0)
    return left if left > timedelta(0) else None


def _gaining_is_ready(snapshot: ServiceSnapshot, rollout: Rollout) -> bool:
    pending = snapshot.pending
    if pending is None:
        return False
    desired = desired_serve(snapshot, pending, rollout.pending.capacity)
    return not serving_obstacle(pending, desired)


def _is_rolled_back(rollout: Rollout, pending: ClusterView) -> bool:
    """A pending cluster that cannot be reached does not delay the end of the rollback."""
    home = (rollout.active.capacity, rollout.active.traffic) == (100, 100)
    return rollout.is_rolled_back or (rollout.rolling_back and home and not pending.head_is_ready)


def _capacity_step(
    snapshot: ServiceSnapshot,
    view: ClusterView,
    now: Share,
    wanted: Share,
    with_side: Callable[..., RayServiceStatuses],
) -> ServiceStep:
    """Submit the target capacity to a cluster, and record it in the status.

    A cluster that must lose capacity and cannot be reached has none: it counts as done.
    """
    desired = desired_serve(snapshot, view, wanted.capacity)
    step = plan_submission(snapshot, view, desired)
    is_lost = wanted.capacity < now.capacity and not can_submit(view)
    if not step.plan.stages and not is_submitted(view, desired) and not is_lost:
        return step

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        return with_side(status, target_capacity=wanted.capacity)

    return join((step, change_status_after(NOTHING, change, requires=step.plan.actions)))


def _route_step(snapshot: ServiceSnapshot, active: Share, pending: Share | None) -> ServiceStep:
    """Give each cluster its share of the traffic, and record it in the status."""
    if snapshot.gateway_error:
        return Step(wake_in=timedelta(seconds=30))
    plan = plan_route(snapshot, active.traffic, pending.traffic if pending else None)

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        status = with_active(status, **_traffic(active))
        return with_pending(status, **_traffic(pending)) if pending else status

    return change_status_after(plan, change)


def _traffic(share: Share) -> dict[str, object]:
    found: dict[str, object] = {"traffic_routed_percent": share.traffic}
    if share.moved_at is not None:
        found["last_traffic_migrated_time"] = format_time_rounded_up(share.moved_at)
    return found


def _next_check(snapshot: ServiceSnapshot, rollout: Rollout) -> timedelta | None:
    if gateway_not_ready(snapshot):
        return RECHECK_AFTER
    return earliest(due_in(rollout, snapshot.now), _settling_time_left(snapshot, rollout))
