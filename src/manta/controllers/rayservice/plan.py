"""Plans a RayService: the steps of its phase, joined into one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from manta.controllers.rayservice.facts.clusters import (
    RECHECK_AFTER,
    is_pending_wanted,
    pods_to_recheck,
    selected_cluster,
)
from manta.controllers.rayservice.facts.phase import Phase, phase, time_until_timeout
from manta.controllers.rayservice.facts.serve import desired_serve, serving_obstacle
from manta.controllers.rayservice.planners.canary import plan_canary
from manta.controllers.rayservice.planners.canary_route import plan_canary_route
from manta.controllers.rayservice.planners.canary_workers import restore_active
from manta.controllers.rayservice.planners.clusters import plan_clusters
from manta.controllers.rayservice.planners.gateway import delete_gateway_objects
from manta.controllers.rayservice.planners.head_label import plan_head_label
from manta.controllers.rayservice.planners.lifecycle import finalize, initialize
from manta.controllers.rayservice.planners.old_clusters import (
    cancel_scheduled_deletion,
    plan_old_clusters,
)
from manta.controllers.rayservice.planners.rollout import Part, plan_incremental
from manta.controllers.rayservice.planners.serve import plan_submission
from manta.controllers.rayservice.planners.services import plan_services
from manta.controllers.rayservice.planners.suspension import plan_suspension
from manta.controllers.rayservice.planners.worker_replacement import plan_worker_replacement
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep, clear_traffic_split, promoted
from manta.reconcile.plan import NOTHING, do
from manta.reconcile.step import Step, change_status_after, join

SHORTEST_TIMER = timedelta(milliseconds=50)


def plan(snapshot: ServiceSnapshot) -> ServiceStep:
    """All steps in order. Only the last may depend on an earlier one."""
    step = join(_parts(snapshot))
    return (
        step if step.wake_in is None else replace(step, wake_in=max(step.wake_in, SHORTEST_TIMER))
    )


def _parts(snapshot: ServiceSnapshot) -> Iterable[Part]:
    match phase(snapshot):
        case Phase.DELETING:
            return (finalize(snapshot),)
        case Phase.NEW:
            return (initialize(snapshot),)
        case Phase.SUSPENDING:
            return (plan_suspension(snapshot),)
        case Phase.INVALID | Phase.TIMED_OUT:
            return (plan_old_clusters(snapshot),)
        case Phase.SERVING:
            return _serving(snapshot)
        case _:
            return ()


# ── serving ──────────────────────────────────────────────────────────────────────────────


def _serving(snapshot: ServiceSnapshot) -> tuple[Part, ...]:
    if _services_already_switched(snapshot):
        return (plan_old_clusters(snapshot), change_status_after(NOTHING, promoted))
    upkeep: tuple[Part, ...] = (
        plan_old_clusters(snapshot),
        cancel_scheduled_deletion(snapshot),
        plan_clusters(snapshot),
        plan_head_label(snapshot, snapshot.active),
        plan_head_label(snapshot, snapshot.pending),
        plan_worker_replacement(snapshot),
        Step(wake_in=RECHECK_AFTER if pods_to_recheck(snapshot) else None),
        Step(wake_in=time_until_timeout(snapshot)),
    )
    if snapshot.is_incremental:
        return (*upkeep, *plan_incremental(snapshot))
    if snapshot.is_canary and snapshot.pending_name and _is_alive(snapshot.active):
        return (*upkeep, *plan_canary(snapshot))
    # The switch of the Services comes first, to shorten the time until the new cluster serves.
    # Submissions come last: they wait for a dashboard.
    views = (one for one in (snapshot.active, snapshot.pending) if one is not None)
    submissions = (plan_submission(snapshot, one, desired_serve(snapshot, one)) for one in views)
    switch = plan_services(snapshot, _target(snapshot))
    ends = (plan_canary_route(snapshot), restore_active(snapshot), _end_of_split(snapshot))
    return (switch, *upkeep, *ends, *submissions)


def _is_alive(view: ClusterView | None) -> bool:
    return view is not None and not view.is_deleting


def _end_of_split(snapshot: ServiceSnapshot) -> ServiceStep:
    """The strategy was incremental before: delete Gateway and HTTPRoute once the stable Service
    serves."""
    serves = selected_cluster(snapshot.serve_service)
    if not snapshot.was_split or serves != snapshot.active_name:
        return Step()
    why = "the upgrade strategy is no longer incremental"
    deletions = () if snapshot.gateway_class else delete_gateway_objects(snapshot, why)
    return change_status_after(do(*deletions, independent=True), clear_traffic_split)


def _services_already_switched(snapshot: ServiceSnapshot) -> bool:
    """An earlier reconcile switched the Services and ended before it wrote the status."""
    serves = selected_cluster(snapshot.serve_service)
    return not snapshot.is_incremental and bool(serves) and serves == snapshot.pending_name


def _target(snapshot: ServiceSnapshot) -> ClusterView | None:
    """The cluster that should get the traffic: the pending one as soon as it can serve."""
    pending = snapshot.pending
    if pending is not None and is_pending_wanted(snapshot) and _can_serve(snapshot, pending):
        return pending
    if _is_alive(snapshot.active):
        return snapshot.active
    return None


def _can_serve(snapshot: ServiceSnapshot, view: ClusterView) -> bool:
    is_first = snapshot.active is None or snapshot.active.is_deleting
    return not serving_obstacle(view, desired_serve(snapshot, view), is_first=is_first)
