"""The status after a reconcile: the clusters, what Serve reports, and the conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from manta.api.conditions import find, is_true, remove, set_condition
from manta.api.meta import Condition
from manta.api.ray.service import (
    RayServiceStatus,
    RayServiceStatuses,
    ServiceConditionReason,
    ServiceConditionType,
    ServiceStatusWord,
)
from manta.api.times import format_time
from manta.controllers.rayservice.facts.clusters import is_rolling_back, rejection
from manta.controllers.rayservice.facts.phase import (
    Phase,
    is_everything_gone,
    is_out_of_time,
    phase,
)
from manta.controllers.rayservice.facts.rollout import missing_route
from manta.controllers.rayservice.snapshot import DashboardReply, ServiceSnapshot
from manta.controllers.rayservice.status_changes import (
    ServiceStep,
    clear_traffic_split,
    with_split_of,
)
from manta.controllers.rayservice.wait_messages import (
    degraded_message,
    not_ready_message,
    upgrade_message,
)
from manta.manifests.serve_services import cluster_serve_service_name, serve_service_name
from manta.reconcile.failures import blockage_of, is_routine
from manta.reconcile.outcome import Outcome
from manta.rules.validation.service import initializing_timeout
from manta.rules.validation.violation import violations_message

Type = ServiceConditionType
Reason = ServiceConditionReason


def next_status(
    snapshot: ServiceSnapshot, step: ServiceStep, outcome: Outcome
) -> RayServiceStatuses:
    current = phase(snapshot)
    if current is Phase.SERVING:
        status = _serving(snapshot, step, outcome)
    else:
        status = _STATUS[current](snapshot, outcome) if current in _STATUS else snapshot.status
    status = msgspec.structs.replace(
        status, observed_generation=snapshot.service.metadata.generation
    )
    if status == snapshot.status:
        return status
    return msgspec.structs.replace(status, last_update_time=format_time(snapshot.now))


def _set(
    snapshot: ServiceSnapshot, status: RayServiceStatuses, *wanted: tuple[Type, str, Reason, str]
) -> RayServiceStatuses:
    conditions, generation = status.conditions, snapshot.service.metadata.generation
    for type_, truth, reason, message in wanted:
        condition = Condition(
            type=type_, status=truth, reason=reason, message=message, observed_generation=generation
        )
        conditions = set_condition(conditions, condition, snapshot.now)
    return msgspec.structs.replace(status, conditions=conditions)


def _drop(status: RayServiceStatuses, types: Iterable[Type]) -> RayServiceStatuses:
    conditions = status.conditions
    for type_ in types:
        conditions = remove(conditions, type_)
    return msgspec.structs.replace(status, conditions=conditions)


# ── not begun, invalid, timed out ───────────────────────────────────────────────────────────────────


def _new(snapshot: ServiceSnapshot, outcome: Outcome) -> RayServiceStatuses:
    """Only a refusal is worth a word: else the finalizer is set, and the next reconcile begins."""
    failure, known = outcome.failure, find(snapshot.status.conditions, Type.READY)
    has_begun = known is not None and known.reason != Reason.CANNOT_START
    if failure is None or is_routine(failure) or has_begun:
        return snapshot.status
    why = blockage_of(failure).message
    return _set(snapshot, snapshot.status, (Type.READY, "False", Reason.CANNOT_START, why))


def _invalid(snapshot: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    message = violations_message(snapshot.violations)
    status = _set(
        snapshot, snapshot.status, (Type.READY, "False", Reason.VALIDATION_FAILED, message)
    )
    return msgspec.structs.replace(status, service_status=ServiceStatusWord.NOT_RUNNING)


def _restarted(snapshot: ServiceSnapshot, status: RayServiceStatuses) -> RayServiceStatuses:
    """Reset the conditions with a new transition time, so that the timeout starts again (C50)."""
    message = "the service starts"
    return _set(
        snapshot,
        _drop(status, (Type.READY, Type.UPGRADE_IN_PROGRESS)),
        (Type.READY, "False", Reason.INITIALIZING, message),
        (Type.UPGRADE_IN_PROGRESS, "False", Reason.INITIALIZING, message),
    )


def _recovering(snapshot: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    return _restarted(snapshot, snapshot.status)


def _timed_out(
    snapshot: ServiceSnapshot, status: RayServiceStatuses, waited_for: str
) -> RayServiceStatuses:
    limit = initializing_timeout(snapshot.service)
    message = (
        f"RayService failed to become ready within the configured timeout of {limit};"
        f" edit the spec to start again. Last: {waited_for}"
    )
    bare = _without_clusters(status)
    return _set(snapshot, bare, (Type.READY, "False", Reason.INITIALIZING_TIMEOUT, message))


def _without_clusters(status: RayServiceStatuses) -> RayServiceStatuses:
    return msgspec.structs.replace(
        status,
        active_service_status=RayServiceStatus(),
        pending_service_status=RayServiceStatus(),
        num_serve_endpoints=0,
        service_status=ServiceStatusWord.NOT_RUNNING,
    )


# ── suspension ───────────────────────────────────────────────────────────────────────────


def _suspend_requested(snapshot: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    message = "spec.suspend is set"
    return _set(
        snapshot,
        _with_split_only(_drop(snapshot.status, (Type.SUSPENDED,))),
        (Type.SUSPENDING, "True", Reason.SUSPEND_REQUESTED, message),
        (Type.READY, "False", Reason.SUSPEND_IN_PROGRESS, message),
        (Type.UPGRADE_IN_PROGRESS, "False", Reason.SUSPEND_IN_PROGRESS, message),
        (Type.ROLLBACK_IN_PROGRESS, "False", Reason.SUSPEND_IN_PROGRESS, message),
    )


def _with_split_only(status: RayServiceStatuses) -> RayServiceStatuses:
    """Without clusters. That traffic was split stays until the end: it says that a Gateway and an HTTPRoute may be
    left, whatever the strategy is now."""
    bare = RayServiceStatus()
    return msgspec.structs.replace(
        _without_clusters(status),
        active_service_status=with_split_of(bare, status.active_service_status),
        pending_service_status=with_split_of(bare, status.pending_service_status),
    )


def _suspending(snapshot: ServiceSnapshot, outcome: Outcome) -> RayServiceStatuses:
    if not is_everything_gone(snapshot):
        message = _what_is_left(snapshot)
        if outcome.failure is not None:
            message = blockage_of(outcome.failure).message
        reason = Reason.SUSPEND_IN_PROGRESS
        return _set(snapshot, snapshot.status, (Type.SUSPENDING, "True", reason, message))
    message, reason = "all objects are deleted", Reason.SUSPEND_COMPLETE
    return _set(
        snapshot,
        clear_traffic_split(snapshot.status),
        (Type.SUSPENDING, "False", reason, message),
        (Type.SUSPENDED, "True", reason, message),
        (Type.READY, "False", reason, message),
        (Type.UPGRADE_IN_PROGRESS, "False", reason, message),
        (Type.ROLLBACK_IN_PROGRESS, "False", reason, message),
    )


def _what_is_left(snapshot: ServiceSnapshot) -> str:
    objects = [f"RayCluster {one.metadata.name}" for one in snapshot.clusters]
    objects += [f"Service {one.metadata.name}" for one in snapshot.own_services]
    objects += ["its Gateway"] if snapshot.gateway else []
    objects += ["its HTTPRoute"] if snapshot.route else []
    return f"being deleted: {', '.join(objects)}"


def _resuming(snapshot: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    status = _set(
        snapshot,
        snapshot.status,
        (Type.SUSPENDED, "False", Reason.RESUMED, "spec.suspend is no longer set"),
    )
    return _restarted(snapshot, _drop(status, (Type.ROLLBACK_IN_PROGRESS,)))


# ── serving ──────────────────────────────────────────────────────────────────────────────


def _serving(snapshot: ServiceSnapshot, step: ServiceStep, outcome: Outcome) -> RayServiceStatuses:
    status = snapshot.status
    before = find(status.conditions, Type.READY)
    if before is None or before.reason == Reason.CANNOT_START:
        status = _restarted(snapshot, status)
    status = step.status_change(status, outcome)
    status = msgspec.structs.replace(
        status,
        active_service_status=_with_cluster_status(snapshot, status.active_service_status),
        pending_service_status=_with_cluster_status(snapshot, status.pending_service_status),
        num_serve_endpoints=_endpoints(snapshot, status),
    )
    status = _with_upgrade(snapshot, _with_ready(snapshot, status, outcome), outcome)
    return _with_rollback(snapshot, status)


def _with_cluster_status(snapshot: ServiceSnapshot, side: RayServiceStatus) -> RayServiceStatus:
    """Add the cluster's own status (C28), and what its Serve reports."""
    view = snapshot.view_of(side.ray_cluster_name)
    if view is None:
        return side
    applications = side.application_statuses
    if isinstance(view.answer, DashboardReply):
        applications = dict(view.answer.applications)
    return msgspec.structs.replace(
        side, ray_cluster_status=view.cluster.status, application_statuses=applications
    )


def _endpoints(snapshot: ServiceSnapshot, status: RayServiceStatuses) -> int:
    services = [serve_service_name(snapshot.service)]
    if snapshot.is_incremental:
        sides = (status.active_service_status, status.pending_service_status)
        services = [cluster_serve_service_name(side.ray_cluster_name) for side in sides]
    empty: frozenset[str] = frozenset()
    return len(empty.union(*(snapshot.endpoints.get(name, empty) for name in services)))


def _with_ready(
    snapshot: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome
) -> RayServiceStatuses:
    count, running = status.num_serve_endpoints, ServiceStatusWord.RUNNING
    unreachable = missing_route(snapshot, outcome)
    if count > 0 and not unreachable:
        message = f"{count} Pods take requests" if count > 1 else "1 Pod takes requests"
        degraded = degraded_message(snapshot)
        message += f"; {degraded}" if degraded else ""
        ready = (Type.READY, "True", Reason.NON_ZERO_SERVE_ENDPOINTS, message)
        return msgspec.structs.replace(_set(snapshot, status, ready), service_status=running)
    waits_for = not_ready_message(snapshot, status, outcome) if not count else unreachable
    before = find(status.conditions, Type.READY)
    if before is not None and before.reason == Reason.VALIDATION_FAILED:
        status = _restarted(snapshot, status)
    elif is_out_of_time(snapshot):
        return _timed_out(snapshot, status, waits_for)
    was_ready = is_true(status.conditions, Type.READY)
    is_first = before is None or before.reason in (Reason.INITIALIZING, Reason.VALIDATION_FAILED)
    reason = Reason.INITIALIZING if is_first and not was_ready else Reason.ZERO_SERVE_ENDPOINTS
    status = _set(snapshot, status, (Type.READY, "False", reason, waits_for))
    return msgspec.structs.replace(status, service_status=ServiceStatusWord.NOT_RUNNING)


def _with_upgrade(
    snapshot: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome
) -> RayServiceStatuses:
    active = status.active_service_status.ray_cluster_name
    pending = status.pending_service_status.ray_cluster_name
    upgrade = Type.UPGRADE_IN_PROGRESS
    if active and pending:
        message = upgrade_message(snapshot, status, outcome)
        return _set(snapshot, status, (upgrade, "True", Reason.BOTH_CLUSTERS_EXIST, message))
    if active:
        message = upgrade_message(snapshot, status, outcome)
        reason = Reason.CANARY_REJECTED if rejection(snapshot) else Reason.NO_PENDING_CLUSTER
        return _set(snapshot, status, (upgrade, "False", reason, message))
    before = find(status.conditions, upgrade)
    if before is not None and before.reason == Reason.INITIALIZING:
        return _set(snapshot, status, (upgrade, "False", Reason.INITIALIZING, before.message))
    message = "there is no active cluster"
    return _set(snapshot, status, (upgrade, "Unknown", Reason.NO_ACTIVE_CLUSTER, message))


def _with_rollback(snapshot: ServiceSnapshot, status: RayServiceStatuses) -> RayServiceStatuses:
    if not is_rolling_back(snapshot) or not status.pending_service_status.ray_cluster_name:
        return _drop(status, (Type.ROLLBACK_IN_PROGRESS,))
    message = "the spec no longer matches the pending cluster: its traffic and capacity move back"
    reason = Reason.DESIRED_SPEC_CHANGED
    if why := rejection(snapshot):
        message, reason = f"the canary is rolled back: {why}", Reason.CANARY_REJECTED
    return _set(snapshot, status, (Type.ROLLBACK_IN_PROGRESS, "True", reason, message))


_STATUS: dict[Phase, Callable[[ServiceSnapshot, Outcome], RayServiceStatuses]] = {
    Phase.NEW: _new,
    Phase.SUSPEND_REQUESTED: _suspend_requested,
    Phase.SUSPENDING: _suspending,
    Phase.RESUMING: _resuming,
    Phase.INVALID: _invalid,
    Phase.RECOVERING: _recovering,
}
"""Besides SERVING. In the other phases the status stays as it is."""
