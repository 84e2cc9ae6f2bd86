"""Where a RayService stands, and what is done there; nothing else is decided here."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto

from manta.api.conditions import find
from manta.api.ray import names
from manta.api.ray.service import ServiceConditionReason, ServiceConditionType
from manta.api.times import parse_time
from manta.controllers.rayservice.planners import lifecycle, suspension
from manta.controllers.rayservice.planners.clusters import is_pending_wanted, plan_clusters
from manta.controllers.rayservice.planners.doubt import plan_look
from manta.controllers.rayservice.planners.gateway import closing
from manta.controllers.rayservice.planners.old_clusters import plan_old_clusters, plan_reprieve
from manta.controllers.rayservice.planners.rollout import plan_incremental
from manta.controllers.rayservice.planners.serve import (
    obstacle_to_serving,
    order_for,
    plan_head_label,
    plan_submission,
)
from manta.controllers.rayservice.planners.services import plan_services, selected_cluster
from manta.controllers.rayservice.planners.unserving import plan_unserving
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot
from manta.controllers.rayservice.step import NO_STEP, Step, forget_shares, promoted
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.validation.service import initializing_timeout
from manta.rules.validation.violation import Violation


class Phase(Enum):
    LEAVING = auto()
    BEGINNING = auto()
    SUSPEND_REQUESTED = auto()
    SUSPENDING = auto()
    SUSPENDED = auto()
    RESUMING = auto()
    INVALID = auto()
    RECOVERING = auto()
    """It had timed out, and its spec was edited since."""
    TIMED_OUT = auto()
    SERVING = auto()


def phase(seen: ServiceSnapshot) -> Phase:
    meta = seen.service.metadata
    if meta.deletion_timestamp is not None:
        return Phase.LEAVING
    if names.FINALIZER_RAY_SERVICE not in meta.finalizers:
        return Phase.BEGINNING
    if suspension.is_suspending(seen):
        return Phase.SUSPENDING
    if suspension.is_suspended(seen):
        return Phase.SUSPENDED if seen.spec.suspend else Phase.RESUMING
    if seen.spec.suspend:
        return Phase.SUSPEND_REQUESTED
    if seen.violations:
        return Phase.INVALID
    ready = find(seen.status.conditions, ServiceConditionType.READY)
    if ready is not None and ready.reason == ServiceConditionReason.INITIALIZING_TIMEOUT:
        edited = ready.observed_generation != meta.generation
        return Phase.RECOVERING if edited else Phase.TIMED_OUT
    return Phase.SERVING


def steps(seen: ServiceSnapshot) -> tuple[Step, ...]:
    match phase(seen):
        case Phase.LEAVING:
            return (lifecycle.leave(seen),)
        case Phase.BEGINNING:
            return (lifecycle.begin(seen),)
        case Phase.SUSPENDING:
            return (suspension.plan_release(seen),)
        case Phase.INVALID | Phase.TIMED_OUT:
            return (plan_old_clusters(seen),)
        case Phase.SERVING:
            return _serving(seen)
        case _:
            return ()


def plan(seen: ServiceSnapshot) -> Plan:
    """All steps one after the other. None but the last depends on an earlier one."""
    found, joined = steps(seen), NOTHING
    for step in found:
        joined = joined.then(step.plan)
    timers = [step.timer for step in found if step.timer is not None]
    if not timers:
        return joined
    soon = max(min(timers), timedelta(milliseconds=50))
    return Plan(joined.stages, Wait("a moment that was set", retry_in=soon), joined.notes)


# ── the usual round ──────────────────────────────────────────────────────────────────────


def _serving(seen: ServiceSnapshot) -> tuple[Step, ...]:
    if _was_switched(seen):
        return (plan_old_clusters(seen), Step(change=promoted))
    upkeep = (
        plan_old_clusters(seen),
        plan_reprieve(seen),
        plan_clusters(seen),
        plan_head_label(seen, seen.active),
        plan_head_label(seen, seen.pending),
        plan_unserving(seen),
        plan_look(seen),
        Step(timer=_until_timeout(seen)),
    )
    if seen.is_incremental:
        return (*upkeep, *plan_incremental(seen))
    # One cluster has all the traffic: its switch comes first, because every moment of it counts.
    # What is submitted comes last: only that may hold up.
    submissions = (plan_submission(seen, one, order_for(seen, one)) for one in _sights(seen))
    return (plan_services(seen, _target(seen)), *upkeep, _end_of_split(seen), *submissions)


def _end_of_split(seen: ServiceSnapshot) -> Step:
    """The strategy was incremental before: its ways in go once the stable Service stands."""
    if not seen.was_split or selected_cluster(seen.serve_service) != seen.active_name:
        return NO_STEP
    why = "the upgrade strategy is no longer incremental"
    return Step(do(*closing(seen, why), independent=True), forget_shares)


def _was_switched(seen: ServiceSnapshot) -> bool:
    """A round of ours re-pointed the Services, and was ended before it could say so."""
    serves = selected_cluster(seen.serve_service)
    return not seen.is_incremental and bool(serves) and serves == seen.pending_name


def _target(seen: ServiceSnapshot) -> ClusterSight | None:
    """The cluster that should get the traffic: the next one as soon as it can take it."""
    pending = seen.pending
    if pending is not None and is_pending_wanted(seen) and _can_serve(seen, pending):
        return pending
    if seen.active is not None and not seen.active.is_going:
        return seen.active
    return None


def _can_serve(seen: ServiceSnapshot, sight: ClusterSight) -> bool:
    is_first = seen.active is None or seen.active.is_going
    return not obstacle_to_serving(sight, order_for(seen, sight), is_first=is_first)


def _sights(seen: ServiceSnapshot) -> tuple[ClusterSight, ...]:
    return tuple(one for one in (seen.active, seen.pending) if one is not None)


def _until_timeout(seen: ServiceSnapshot) -> timedelta | None:
    """How long the service may still take to become ready; None when no limit runs."""
    limit = initializing_timeout(seen.service)
    ready = find(seen.status.conditions, ServiceConditionType.READY)
    if limit is None or isinstance(limit, Violation):
        return None
    if ready is None or ready.reason != ServiceConditionReason.INITIALIZING:
        return None
    return parse_time(ready.last_transition_time) + limit - seen.now


def is_out_of_time(seen: ServiceSnapshot) -> bool:
    left = _until_timeout(seen)
    return left is not None and left <= timedelta(0)
