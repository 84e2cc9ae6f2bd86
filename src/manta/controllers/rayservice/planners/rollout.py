"""An incremental upgrade: capacity and traffic walk from one cluster to the other, and back.

The walk itself is `rules.upgrade`. Here it is read off the world (what the HTTPRoute says is where
the traffic goes) and turned into the next step. A step is taken only on what the last one left
behind, so that a crash anywhere repeats a step and never skips one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from manta.api.conditions import is_true
from manta.api.gateway import HTTPRoute
from manta.api.ray.service import RayServiceStatus, RayServiceStatuses
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.api.times import format_time, parse_optional_time
from manta.controllers.rayservice.planners.clusters import is_rolling_back
from manta.controllers.rayservice.planners.gateway import plan_gateway, plan_route
from manta.controllers.rayservice.planners.serve import (
    can_be_told,
    is_told,
    obstacle_to_serving,
    order_for,
    plan_submission,
)
from manta.controllers.rayservice.planners.services import (
    plan_cluster_serve_service,
    plan_head_service,
    plan_stable_serve_service,
)
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot
from manta.controllers.rayservice.step import (
    Step,
    promoted,
    with_active,
    with_pending,
    without_pending,
)
from manta.manifests.gateway import gateway_name, route_name
from manta.manifests.serve_services import cluster_serve_service_name
from manta.reconcile.actions import Call
from manta.reconcile.outcome import Outcome
from manta.rules.upgrade import (
    Pace,
    Rollout,
    Share,
    due_in,
    next_capacity,
    next_traffic,
)
from manta.rules.validation.service import max_surge

ALMOST_A_SECOND = timedelta(microseconds=999_999)
FAR_FUTURE = datetime.max.replace(tzinfo=UTC)
"""When every interval has passed."""
SETTLING = timedelta(seconds=2)
"""What a gateway may take to follow new weights: until then the old cluster keeps its capacity."""
LOOK_AGAIN = timedelta(seconds=2)
"""Before the watches of Gateway and HTTPRoute have begun, both are read again after this."""


def plan_incremental(seen: ServiceSnapshot) -> tuple[Step, ...]:
    if seen.active is None or seen.active.is_going:
        return _alone(seen, seen.pending, is_first=True)
    if seen.pending is None or seen.pending.is_going:
        return _alone(seen, seen.active, is_first=False)
    return _side_by_side(seen, seen.active, seen.pending)


# ── one cluster ──────────────────────────────────────────────────────────────────────────


def _alone(
    seen: ServiceSnapshot, sight: ClusterSight | None, *, is_first: bool
) -> tuple[Step, ...]:
    """All traffic and all capacity to one cluster; a pending one is promoted once it can serve."""
    if sight is None:
        return ()
    percent = 100 if is_first else seen.status.active_service_status.target_capacity
    order = order_for(seen, sight, percent)
    submission = plan_submission(seen, sight, order)
    if is_first and obstacle_to_serving(sight, order, is_first=True):
        return (submission,)
    service = plan_cluster_serve_service(seen, sight)
    ways = [
        Step(service),
        Step(plan_head_service(seen, sight)),
        Step(plan_stable_serve_service(seen, sight)),
        Step(plan_gateway(seen)),
    ]
    if is_first:
        return (*ways, submission, Step(change=_all_to_pending, hangs_on=service.actions))
    return (*ways, _routed(seen, Share(100, 100), None), submission)


def _all_to_pending(status: RayServiceStatuses) -> RayServiceStatuses:
    return promoted(with_pending(status, target_capacity=100, traffic_routed_percent=100))


# ── two clusters ─────────────────────────────────────────────────────────────────────────


def standing(seen: ServiceSnapshot) -> Rollout:
    """Where the walk stands now."""
    options, status = seen.upgrade_options, seen.status
    pace = Pace(
        max_surge(options),
        options.step_size_percent or 0,
        timedelta(seconds=options.interval_seconds or 0),
    )
    active = _share(status.active_service_status, Share(100, 100))
    pending = _share(status.pending_service_status, Share(0, 0))
    recorded = Rollout(active, pending, pace, rolling_back=is_rolling_back(seen))
    return _with_unrecorded_step(seen, recorded)


def _share(side: RayServiceStatus, default: Share) -> Share:
    said, capacity = side.traffic_routed_percent, side.target_capacity
    return Share(
        default.capacity if capacity is None else capacity,
        default.traffic if said is None else said,
        parse_optional_time(side.last_traffic_migrated_time),
    )


def _with_unrecorded_step(seen: ServiceSnapshot, recorded: Rollout) -> Rollout:
    """A crash may come between a step of the HTTPRoute and the status that records it. Weights that
    are no such step were set by somebody else: the recorded ones are restored."""
    status = seen.status
    active = _weight(seen.route, status.active_service_status.ray_cluster_name)
    pending = _weight(seen.route, status.pending_service_status.ray_cluster_name)
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
        active=replace(recorded.active, traffic=active, moved_at=seen.now),
        pending=replace(recorded.pending, traffic=pending, moved_at=seen.now),
    )


def _weights(rollout: Rollout) -> tuple[int, int]:
    return rollout.active.traffic, rollout.pending.traffic


def _weight(route: HTTPRoute | None, cluster: str) -> int | None:
    rules = route.spec.rules if route is not None else ()
    name = cluster_serve_service_name(cluster)
    refs = (ref for rule in rules for ref in rule.backend_refs if ref.name == name)
    return next((ref.weight for ref in refs), None)


def next_shares(seen: ServiceSnapshot) -> Rollout:
    """Where the walk stands after this round, if all goes well: at most one step further."""
    now = standing(seen)
    if what_gateway_waits_for(seen):
        return now
    further = next_capacity(now)
    if further != now:
        return now if _unsettled_for(seen, now) and _gives_up(now, further) else further
    return next_traffic(now, seen.now, gaining_is_ready=_gaining_is_ready(seen, now))


def _gives_up(now: Rollout, further: Rollout) -> bool:
    """Does this step take capacity from the cluster that traffic has just left?"""
    fewer = (
        further.active.capacity < now.active.capacity,
        further.pending.capacity < now.pending.capacity,
    )
    return any(fewer)


def _unsettled_for(seen: ServiceSnapshot, now: Rollout) -> timedelta | None:
    """How long until a gateway has surely followed the last change of weights."""
    moved = max((one.moved_at for one in (now.active, now.pending) if one.moved_at), default=None)
    left = moved + SETTLING - seen.now if moved is not None else timedelta(0)
    return left if left > timedelta(0) else None


def _gaining_is_ready(seen: ServiceSnapshot, rollout: Rollout) -> bool:
    pending = seen.pending
    if pending is None:
        return False
    return not obstacle_to_serving(pending, order_for(seen, pending, rollout.pending.capacity))


def what_gateway_waits_for(seen: ServiceSnapshot) -> str:
    """Why the ways in cannot be relied on yet; empty when they can."""
    if seen.gateway_trouble:
        return seen.gateway_trouble
    name = gateway_name(seen.service)
    conditions = seen.gateway.status.conditions if seen.gateway else ()
    for type_ in ("Accepted", "Programmed"):
        if not is_true(conditions, type_):
            return f"Gateway {name} is not {type_} yet by its controller"
    parents = seen.route.status.parents if seen.route else ()
    mine = [one for one in parents if one.parent_ref.name == name]
    for type_ in ("Accepted", "ResolvedRefs"):
        if not any(is_true(one.conditions, type_) for one in mine):
            return f"the HTTPRoute is not {type_} yet by Gateway {name}"
    return ""


def missing_way_in(seen: ServiceSnapshot, outcome: Outcome) -> str:
    """Which object keeps requests from the clusters although the status says that traffic is
    routed; empty when none does, or what was missing has just been made."""
    if not seen.is_incremental or seen.status.active_service_status.traffic_routed_percent is None:
        return ""
    if seen.gateway_trouble:
        return seen.gateway_trouble
    done = {one.action.resource for one in outcome.done if not isinstance(one.action, Call)}
    if seen.gateway is None and GATEWAYS not in done:
        return f"there is no Gateway {gateway_name(seen.service)}: no request reaches the service"
    name = route_name(seen.service)
    if HTTP_ROUTES in done:
        return ""
    if seen.route is None:
        return f"there is no HTTPRoute {name}: no request reaches the service"
    sides = (seen.status.active_service_status, seen.status.pending_service_status)
    if not any(_weight(seen.route, side.ray_cluster_name) for side in sides):
        return f"HTTPRoute {name} sends no request to the service"
    return ""


def _side_by_side(
    seen: ServiceSnapshot, active: ClusterSight, pending: ClusterSight
) -> tuple[Step, ...]:
    now = standing(seen)
    if now.is_finished:
        head = plan_head_service(seen, pending)
        return (Step(head), Step(plan_stable_serve_service(seen, pending)), Step(change=promoted))
    if _is_rolled_back(now, pending):
        return (Step(change=without_pending),)
    rollout = next_shares(seen)
    # Before the old cluster gives up its last capacity, the stable name follows the traffic.
    stable = pending if now.pending.traffic == 100 else active
    return (
        Step(plan_cluster_serve_service(seen, active)),
        Step(plan_cluster_serve_service(seen, pending)),
        Step(plan_head_service(seen, active)),
        Step(plan_stable_serve_service(seen, stable)),
        Step(plan_gateway(seen)),
        _routed(seen, rollout.active, rollout.pending),
        _asked_for(seen, active, rollout.active, with_active),
        _asked_for(seen, pending, rollout.pending, with_pending),
        Step(timer=_look_again(seen, rollout)),
    )


def _is_rolled_back(rollout: Rollout, pending: ClusterSight) -> bool:
    """Or as good as: what cannot even be reached holds nothing back."""
    home = (rollout.active.capacity, rollout.active.traffic) == (100, 100)
    return rollout.is_rolled_back or (rollout.rolling_back and home and not pending.head_is_ready)


def _asked_for(
    seen: ServiceSnapshot,
    sight: ClusterSight,
    share: Share,
    with_side: Callable[..., RayServiceStatuses],
) -> Step:
    """Ask its Serve for this share, and say so in the status once it was asked."""
    order = order_for(seen, sight, share.capacity)
    step = plan_submission(seen, sight, order)
    if not step.plan.stages and not is_told(sight, order) and not _is_lost(seen, sight, share):
        return step

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        return with_side(step.change(status), target_capacity=share.capacity)

    return replace(step, change=change)


def _is_lost(seen: ServiceSnapshot, sight: ClusterSight, share: Share) -> bool:
    """A cluster that is to give capacity up and cannot be told so has none: it holds nobody up."""
    now = standing(seen)
    has = now.active.capacity if sight is seen.active else now.pending.capacity
    return share.capacity < has and not can_be_told(sight)


def _routed(seen: ServiceSnapshot, active: Share, pending: Share | None) -> Step:
    """Send each its share, and say so in the status once it is sent."""
    plan = plan_route(seen, active.traffic, pending.traffic if pending else None)

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        status = with_active(status, **_traffic(active))
        return with_pending(status, **_traffic(pending)) if pending else status

    return Step(plan, change) if not seen.gateway_trouble else Step(timer=timedelta(seconds=30))


def _traffic(share: Share) -> dict[str, object]:
    found: dict[str, object] = {"traffic_routed_percent": share.traffic}
    if share.moved_at is not None:
        # In whole seconds, and rounded up: an interval is never shorter than the user said.
        found["last_traffic_migrated_time"] = format_time(share.moved_at + ALMOST_A_SECOND)
    return found


def _look_again(seen: ServiceSnapshot, rollout: Rollout) -> timedelta | None:
    if what_gateway_waits_for(seen):
        return LOOK_AGAIN
    timers = (due_in(rollout, seen.now), _unsettled_for(seen, rollout))
    return min((one for one in timers if one is not None), default=None)
