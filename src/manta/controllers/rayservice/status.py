"""The status after a round: which clusters there are, what Serve says, and what is true of it all."""

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
from manta.controllers.rayservice.explain import (
    what_ready_waits_for,
    what_serving_lacks,
    what_upgrade_waits_for,
)
from manta.controllers.rayservice.plan import Phase, is_out_of_time, phase, steps
from manta.controllers.rayservice.planners.clusters import is_rolling_back
from manta.controllers.rayservice.planners.rollout import missing_way_in
from manta.controllers.rayservice.planners.suspension import is_everything_gone
from manta.controllers.rayservice.snapshot import ServiceSnapshot, Told
from manta.manifests.serve_services import cluster_serve_service_name, serve_service_name
from manta.reconcile.outcome import Outcome
from manta.rules.validation.service import initializing_timeout
from manta.rules.validation.violation import sentence

Type = ServiceConditionType
Reason = ServiceConditionReason


def next_status(seen: ServiceSnapshot, outcome: Outcome) -> RayServiceStatuses:
    status = _STATUS[phase(seen)](seen, outcome)
    status = msgspec.structs.replace(status, observed_generation=seen.service.metadata.generation)
    if status == seen.status:
        return status
    return msgspec.structs.replace(status, last_update_time=format_time(seen.now))


def _set(
    seen: ServiceSnapshot, status: RayServiceStatuses, *wanted: tuple[Type, str, Reason, str]
) -> RayServiceStatuses:
    conditions, generation = status.conditions, seen.service.metadata.generation
    for type_, truth, reason, message in wanted:
        condition = Condition(
            type=type_,
            status=truth,
            reason=reason,
            message=message,
            observed_generation=generation,
        )
        conditions = set_condition(conditions, condition, seen.now)
    return msgspec.structs.replace(status, conditions=conditions)


def _drop(status: RayServiceStatuses, types: Iterable[Type]) -> RayServiceStatuses:
    conditions = status.conditions
    for type_ in types:
        conditions = remove(conditions, type_)
    return msgspec.structs.replace(status, conditions=conditions)


def _kept(seen: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    return seen.status


# ── trouble ──────────────────────────────────────────────────────────────────────────────


def _invalid(seen: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    message = sentence(seen.violations)
    status = _set(seen, seen.status, (Type.READY, "False", Reason.VALIDATION_FAILED, message))
    return msgspec.structs.replace(status, service_status=ServiceStatusWord.NOT_RUNNING)


def _rearmed(seen: ServiceSnapshot, status: RayServiceStatuses) -> RayServiceStatuses:
    """As new, with a fresh transition time: whoever waits is given the whole time again (C50)."""
    message = "the service starts"
    return _set(
        seen,
        _drop(status, (Type.READY, Type.UPGRADE_IN_PROGRESS)),
        (Type.READY, "False", Reason.INITIALIZING, message),
        (Type.UPGRADE_IN_PROGRESS, "False", Reason.INITIALIZING, message),
    )


def _recovering(seen: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    return _rearmed(seen, seen.status)


def _timed_out(
    seen: ServiceSnapshot, status: RayServiceStatuses, waited_for: str
) -> RayServiceStatuses:
    limit = initializing_timeout(seen.service)
    message = (
        f"RayService failed to become ready within the configured timeout of {limit};"
        f" edit the spec to start again. Last: {waited_for}"
    )
    bare = _without_clusters(status)
    return _set(seen, bare, (Type.READY, "False", Reason.INITIALIZING_TIMEOUT, message))


def _without_clusters(status: RayServiceStatuses) -> RayServiceStatuses:
    return msgspec.structs.replace(
        status,
        active_service_status=RayServiceStatus(),
        pending_service_status=RayServiceStatus(),
        num_serve_endpoints=0,
        service_status=ServiceStatusWord.NOT_RUNNING,
    )


# ── suspension ───────────────────────────────────────────────────────────────────────────


def _suspend_requested(seen: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    message = "spec.suspend is set"
    return _set(
        seen,
        _without_clusters(_drop(seen.status, (Type.SUSPENDED,))),
        (Type.SUSPENDING, "True", Reason.SUSPEND_REQUESTED, message),
        (Type.READY, "False", Reason.SUSPEND_IN_PROGRESS, message),
        (Type.UPGRADE_IN_PROGRESS, "False", Reason.SUSPEND_IN_PROGRESS, message),
        (Type.ROLLBACK_IN_PROGRESS, "False", Reason.SUSPEND_IN_PROGRESS, message),
    )


def _suspending(seen: ServiceSnapshot, outcome: Outcome) -> RayServiceStatuses:
    if not is_everything_gone(seen):
        message = _what_is_left(seen)
        if outcome.failure is not None:
            message = str(outcome.failure.error)
        reason = Reason.SUSPEND_IN_PROGRESS
        return _set(seen, seen.status, (Type.SUSPENDING, "True", reason, message))
    message, reason = "everything is given back", Reason.SUSPEND_COMPLETE
    return _set(
        seen,
        seen.status,
        (Type.SUSPENDING, "False", reason, message),
        (Type.SUSPENDED, "True", reason, message),
        (Type.READY, "False", reason, message),
        (Type.UPGRADE_IN_PROGRESS, "False", reason, message),
        (Type.ROLLBACK_IN_PROGRESS, "False", reason, message),
    )


def _what_is_left(seen: ServiceSnapshot) -> str:
    things = [f"RayCluster {one.metadata.name}" for one in seen.clusters]
    things += [f"Service {one.metadata.name}" for one in seen.own_services]
    things += ["its Gateway"] if seen.gateway else []
    things += ["its HTTPRoute"] if seen.route else []
    return f"being deleted: {', '.join(things)}"


def _resuming(seen: ServiceSnapshot, _: Outcome) -> RayServiceStatuses:
    status = _set(
        seen,
        seen.status,
        (Type.SUSPENDED, "False", Reason.RESUMED, "spec.suspend is no longer set"),
    )
    return _rearmed(seen, _drop(status, (Type.ROLLBACK_IN_PROGRESS,)))


# ── the usual round ──────────────────────────────────────────────────────────────────────


def _serving(seen: ServiceSnapshot, outcome: Outcome) -> RayServiceStatuses:
    status = seen.status
    if find(status.conditions, Type.READY) is None:
        status = _rearmed(seen, status)
    for step in steps(seen):
        if step.is_done(outcome):
            status = step.change(status)
    status = msgspec.structs.replace(
        status,
        active_service_status=_described(seen, status.active_service_status),
        pending_service_status=_described(seen, status.pending_service_status),
        num_serve_endpoints=_endpoints(seen, status),
    )
    status = _with_upgrade(seen, _with_ready(seen, status, outcome), outcome)
    return _with_rollback(seen, status)


def _described(seen: ServiceSnapshot, side: RayServiceStatus) -> RayServiceStatus:
    """With the cluster's own status (C28), and with what its Serve says."""
    sight = seen.sight_of(side.ray_cluster_name)
    if sight is None:
        return side
    applications = side.application_statuses
    if isinstance(sight.answer, Told):
        applications = dict(sight.answer.applications)
    return msgspec.structs.replace(
        side, ray_cluster_status=sight.cluster.status, application_statuses=applications
    )


def _endpoints(seen: ServiceSnapshot, status: RayServiceStatuses) -> int:
    services = [serve_service_name(seen.service)]
    if seen.is_incremental:
        sides = (status.active_service_status, status.pending_service_status)
        services = [cluster_serve_service_name(side.ray_cluster_name) for side in sides]
    empty: frozenset[str] = frozenset()
    return len(empty.union(*(seen.endpoints.get(name, empty) for name in services)))


def _with_ready(
    seen: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome
) -> RayServiceStatuses:
    count, running = status.num_serve_endpoints, ServiceStatusWord.RUNNING
    unreachable = missing_way_in(seen, outcome)
    if count > 0 and not unreachable:
        message = f"{count} Pods take requests" if count > 1 else "1 Pod takes requests"
        lacks = what_serving_lacks(seen)
        message += f"; {lacks}" if lacks else ""
        ready = (Type.READY, "True", Reason.NON_ZERO_SERVE_ENDPOINTS, message)
        return msgspec.structs.replace(_set(seen, status, ready), service_status=running)
    waits_for = what_ready_waits_for(seen, status, outcome) if not count else unreachable
    before = find(status.conditions, Type.READY)
    if before is not None and before.reason == Reason.VALIDATION_FAILED:
        status = _rearmed(seen, status)
    elif is_out_of_time(seen):
        return _timed_out(seen, status, waits_for)
    was_ready = is_true(status.conditions, Type.READY)
    is_first = before is None or before.reason in (Reason.INITIALIZING, Reason.VALIDATION_FAILED)
    reason = Reason.INITIALIZING if is_first and not was_ready else Reason.ZERO_SERVE_ENDPOINTS
    status = _set(seen, status, (Type.READY, "False", reason, waits_for))
    return msgspec.structs.replace(status, service_status=ServiceStatusWord.NOT_RUNNING)


def _with_upgrade(
    seen: ServiceSnapshot, status: RayServiceStatuses, outcome: Outcome
) -> RayServiceStatuses:
    active = status.active_service_status.ray_cluster_name
    pending = status.pending_service_status.ray_cluster_name
    upgrade = Type.UPGRADE_IN_PROGRESS
    if active and pending:
        message = what_upgrade_waits_for(seen, status, outcome)
        return _set(seen, status, (upgrade, "True", Reason.BOTH_CLUSTERS_EXIST, message))
    if active:
        message = what_upgrade_waits_for(seen, status, outcome)
        return _set(seen, status, (upgrade, "False", Reason.NO_PENDING_CLUSTER, message))
    before = find(status.conditions, upgrade)
    if before is not None and before.reason == Reason.INITIALIZING:
        return _set(seen, status, (upgrade, "False", Reason.INITIALIZING, before.message))
    message = "there is no active cluster"
    return _set(seen, status, (upgrade, "Unknown", Reason.NO_ACTIVE_CLUSTER, message))


def _with_rollback(seen: ServiceSnapshot, status: RayServiceStatuses) -> RayServiceStatuses:
    if not is_rolling_back(seen) or not status.pending_service_status.ray_cluster_name:
        return _drop(status, (Type.ROLLBACK_IN_PROGRESS,))
    message = "the spec no longer wants the pending cluster: its traffic and capacity go back"
    reason = Reason.DESIRED_SPEC_CHANGED
    return _set(seen, status, (Type.ROLLBACK_IN_PROGRESS, "True", reason, message))


_STATUS: dict[Phase, Callable[[ServiceSnapshot, Outcome], RayServiceStatuses]] = {
    Phase.LEAVING: _kept,
    Phase.BEGINNING: _kept,
    Phase.SUSPEND_REQUESTED: _suspend_requested,
    Phase.SUSPENDING: _suspending,
    Phase.SUSPENDED: _kept,
    Phase.RESUMING: _resuming,
    Phase.INVALID: _invalid,
    Phase.RECOVERING: _recovering,
    Phase.TIMED_OUT: _kept,
    Phase.SERVING: _serving,
}
