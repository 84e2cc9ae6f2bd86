"""A canary: the new cluster takes traffic in steps, by its Pods behind the one serve Service. No Gateway is needed.

In each step the new cluster grows, its Pods join the Service, and the old cluster shrinks. The step is recorded when
all of that is done; its pause begins, and then the next one. A rollback is one write to the Service; then the old
cluster grows again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import RayServiceStatuses
from manta.api.times import format_time_rounded_up, parse_optional_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.canary import (
    Chosen,
    Progress,
    canary_obstacle,
    chosen_pods,
    has_serving_label,
    hold,
    is_shared,
    next_weight,
    pause_left,
    progress,
    worker_groups,
)
from manta.controllers.rayservice.facts.canary_end import progress_mark, rollback_reason, stalls_in
from manta.controllers.rayservice.facts.clusters import is_rolling_back, rejection
from manta.controllers.rayservice.facts.serve import desired_serve, is_submitted
from manta.controllers.rayservice.planners.canary_pods import plan_serving_labels
from manta.controllers.rayservice.planners.canary_route import plan_canary_route
from manta.controllers.rayservice.planners.canary_workers import (
    groups_of_first_step,
    grow_pending,
    grown_capacity,
    record_size,
    restore_active,
    restored_capacity,
    shrink_active,
)
from manta.controllers.rayservice.planners.gateway import plan_route
from manta.controllers.rayservice.planners.old_clusters import delete_cluster, deletion_delay
from manta.controllers.rayservice.planners.serve import plan_submission
from manta.controllers.rayservice.planners.services import (
    plan_head_service,
    plan_services,
    plan_shared_serve_service,
)
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.status_changes import (
    ServiceStep,
    with_active,
    with_pending,
    without_pending,
)
from manta.reconcile.actions import Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.reconcile.step import Step, change_status_after, join
from manta.rules.canary import FULL, Group, part

Part = ServiceStep | Plan


def plan_canary(snapshot: ServiceSnapshot) -> tuple[Part, ...]:
    """The steps while both clusters have a name in the status, and the old one is alive."""
    active, pending = snapshot.active, snapshot.pending
    assert active is not None
    recording = record_size(snapshot, active)
    if recording.actions and not is_rolling_back(snapshot):
        return (plan_services(snapshot, active), recording)
    why = rollback_reason(snapshot)
    # While another spec waits for the end of this canary, what ends it says nothing about that spec.
    if why and not rejection(snapshot) and not is_rolling_back(snapshot):
        return _reject(snapshot, active, why)
    clock: tuple[Part, ...] = (_note_progress(snapshot), Step(wake_in=stalls_in(snapshot)))
    if pending is None or pending.is_deleting:
        return (*_only_old(snapshot, active), *clock)
    if is_rolling_back(snapshot):
        return _roll_back(snapshot, active, pending)
    return (*_go_on(snapshot, active, pending), *clock)


def _note_progress(snapshot: ServiceSnapshot) -> ServiceStep:
    """Record when the canary last got further, for its deadline. Follows all other changes of the status."""
    before = snapshot.status

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        known = before.active_service_status.last_traffic_migrated_time
        if not status.pending_service_status.ray_cluster_name:
            return status
        if known and progress_mark(status) == progress_mark(before):
            return status
        moment = format_time_rounded_up(snapshot.now)
        return with_active(status, last_traffic_migrated_time=moment)

    return change_status_after(NOTHING, change)


def _only_old(snapshot: ServiceSnapshot, active: ClusterView) -> tuple[Part, ...]:
    """The new cluster is not there, or no longer: all requests go to the old one."""
    services = (plan_services(snapshot, active), plan_canary_route(snapshot))
    # One that is created now, or is refused, needs the room of its first step.
    groups = groups_of_first_step(snapshot) if snapshot.pending is None else worker_groups(snapshot)
    capacity = restored_capacity(snapshot, groups)
    submission = plan_submission(snapshot, active, desired_serve(snapshot, active, capacity))
    return (*services, restore_active(snapshot, groups, is_over=False), submission)


# ── forward ──────────────────────────────────────────────────────────────────────────────


def _go_on(
    snapshot: ServiceSnapshot, active: ClusterView, pending: ClusterView
) -> tuple[Part, ...]:
    now, groups, obstacle = progress(snapshot), worker_groups(snapshot), canary_obstacle(snapshot)
    if now.is_last and not obstacle and _is_grown(groups, FULL):
        return (plan_canary_route(snapshot, is_over=True), plan_services(snapshot, pending))
    shrinking = shrink_active(snapshot, active, groups, now.weight)
    chosen = chosen_pods(snapshot, groups, now.weight, shrinking.leaving)
    is_reached = not obstacle and not shrinking.is_due and _is_grown(groups, now.weight)
    return (
        *_traffic(snapshot, active, chosen),
        plan_canary_route(snapshot),
        plan_head_service(snapshot, active),
        grow_pending(snapshot, pending, groups, now.weight),
        _capacity(snapshot, pending, grown_capacity(snapshot, groups, now.weight), with_pending),
        _capacity(snapshot, active, shrinking.capacity, with_active),
        Step(shrinking.plan, wake_in=shrinking.wake_in),
        _next_step(snapshot, now, obstacle, is_reached=is_reached and _flows(snapshot, chosen)),
    )


def _traffic(snapshot: ServiceSnapshot, active: ClusterView, chosen: Chosen) -> tuple[Part, ...]:
    """Label the Pods, then let the Service select by that label. The Pods of the old cluster get it long
    before, so that the Service never selects too few."""
    if is_shared(snapshot):
        labels = plan_serving_labels(snapshot, (*chosen.old, *chosen.new), chosen.others)
        return (labels, plan_shared_serve_service(snapshot, active))
    labels = plan_serving_labels(snapshot, chosen.old, ())
    if chosen.new and _have_label(snapshot, chosen.old):
        return (plan_shared_serve_service(snapshot, active),)
    return (labels, plan_services(snapshot, active))


def _have_label(snapshot: ServiceSnapshot, pods: tuple[Pod, ...]) -> bool:
    return all(has_serving_label(snapshot, one) for one in pods)


def _flows(snapshot: ServiceSnapshot, chosen: Chosen) -> bool:
    """Whether the chosen Pods, and no others, take requests."""
    others = any(has_serving_label(snapshot, one) for one in chosen.others)
    wanted = _have_label(snapshot, (*chosen.old, *chosen.new))
    return is_shared(snapshot) and bool(chosen.new) and wanted and not others


def _is_grown(groups: tuple[Group, ...], weight: int) -> bool:
    """Whether the new cluster has the workers that this weight needs."""
    return all(min(one.new, one.new_ready) >= part(weight, one.full_new) for one in groups)


def _capacity(
    snapshot: ServiceSnapshot,
    view: ClusterView,
    percent: int | None,
    with_side: Callable[..., RayServiceStatuses],
) -> ServiceStep:
    """Submit the target capacity to a cluster, and record it in the status."""
    desired = desired_serve(snapshot, view, percent)
    step = plan_submission(snapshot, view, desired)
    if not step.plan.stages and not is_submitted(view, desired):
        return step

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        return with_side(status, target_capacity=percent)

    return join((step, change_status_after(NOTHING, change, requires=step.plan.actions)))


def _next_step(
    snapshot: ServiceSnapshot, now: Progress, obstacle: str, *, is_reached: bool
) -> ServiceStep:
    """Record that a step is reached, or begin the next one."""
    if now.reached_at is None:
        return change_status_after(NOTHING, _moved(snapshot, now.weight)) if is_reached else Step()
    if obstacle or hold(snapshot, now):
        return Step(wake_in=pause_left(snapshot, now) or None)
    weight = next_weight(snapshot, now)

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        status = with_active(status, traffic_routed_percent=FULL - weight)
        return with_pending(status, traffic_routed_percent=weight, last_traffic_migrated_time=None)

    return change_status_after(NOTHING, change)


def _moved(
    snapshot: ServiceSnapshot, weight: int
) -> Callable[[RayServiceStatuses], RayServiceStatuses]:
    moment = format_time_rounded_up(snapshot.now)

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        status = with_active(status, traffic_routed_percent=FULL - weight)
        return with_pending(
            status, traffic_routed_percent=weight, last_traffic_migrated_time=moment
        )

    return change


# ── back ─────────────────────────────────────────────────────────────────────────────────


def _reject(snapshot: ServiceSnapshot, active: ClusterView, why: str) -> tuple[Part, ...]:
    """Record first that this spec is rejected: after a crash the rollback goes on, whatever is measured then."""
    meta = active.cluster.metadata
    note = f"{snapshot.goal_hash} {why}"
    body = {"metadata": {"annotations": {names.ANNOTATION_REJECTED_SPEC: note}}}
    patch = Patch(RAY_CLUSTERS, meta.key, body, Cause.REJECT_SPEC, why, uid=meta.uid)
    return (do(patch), plan_services(snapshot, active), _route_back(snapshot))


def _route_back(snapshot: ServiceSnapshot) -> Plan:
    return plan_route(snapshot, FULL, 0) if snapshot.gateway_class else NOTHING


def _roll_back(
    snapshot: ServiceSnapshot, active: ClusterView, pending: ClusterView
) -> tuple[Part, ...]:
    """All requests go to the old cluster at once. The new one is deleted when those that it has are answered."""
    capacity = restored_capacity(snapshot)
    return (
        plan_services(snapshot, active),
        plan_canary_route(snapshot),
        restore_active(snapshot),
        _leave(snapshot, pending),
        _capacity(snapshot, active, capacity, with_active),
    )


def _leave(snapshot: ServiceSnapshot, pending: ClusterView) -> ServiceStep:
    side = snapshot.status.pending_service_status
    if side.traffic_routed_percent or is_shared(snapshot):
        return change_status_after(NOTHING, _moved(snapshot, 0))
    moved = parse_optional_time(side.last_traffic_migrated_time)
    left = moved + deletion_delay(snapshot) - snapshot.now if moved else timedelta(0)
    if left > timedelta(0):
        return Step(wake_in=left)
    why = "its canary was rolled back"
    return change_status_after(
        do(delete_cluster(snapshot, pending.cluster, why), independent=True), without_pending
    )
