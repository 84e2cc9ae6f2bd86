"""What `.status` says after a round: a pure function of what was seen and what came of it.

KubeRay's fields, conditions and latches, and one condition more (`conditions.py`). Counts speak
of the Pods that were seen; those made in this very round are counted in the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from manta.api.conditions import find, is_true, remove, set_condition
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.quantity import ZERO
from manta.api.ray.cluster import (
    ClusterConditionReason,
    ClusterConditionType,
    ClusterState,
    HeadInfo,
    RayClusterStatus,
)
from manta.api.times import format_time
from manta.controllers.raycluster.blocked import blocked_condition
from manta.controllers.raycluster.conditions import BLOCKED
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.head_condition import head_pod_condition
from manta.controllers.raycluster.planners.network_policy import awaits_fewer_policies
from manta.controllers.raycluster.planners.recreate import awaits_recreation
from manta.controllers.raycluster.planners.terminating import lost_because
from manta.controllers.raycluster.planners.worker_group import awaits_fewer_hosts
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.outcome import Failure, Outcome
from manta.reconcile.plan import MAX_CREATIONS
from manta.rules import scaling
from manta.rules.pod_health import is_ready, is_running, was_never_begun
from manta.rules.traits import head_service_name

Conditions = tuple[Condition, ...]

_REPLICA_FAILURES = {
    Cause.NO_HEAD: "FailedCreateHeadPod",
    Cause.SECOND_HEAD: "FailedDeleteHeadPod",
    Cause.UNHEALTHY_HEAD: "FailedDeleteHeadPod",
    Cause.SCALE_UP: "FailedCreateWorkerPod",
    Cause.SCALE_DOWN: "FailedDeleteWorkerPod",
    Cause.UNHEALTHY_WORKER: "FailedDeleteWorkerPod",
    Cause.NAMED_FOR_DELETION: "FailedDeleteWorkerPod",
    Cause.INCOMPLETE_REPLICA: "FailedDeleteWorkerPod",
    Cause.GROUP_SUSPENDED: "FailedDeleteWorkerPod",
    Cause.GROUP_REMOVED: "FailedDeleteWorkerPod",
    Cause.SUSPENDED: "FailedDeleteAllPods",
    Cause.SPEC_CHANGED: "FailedDeleteAllPods",
}


_ASIDE = frozenset(
    {
        Cause.INGRESS,
        Cause.INGRESS_DRIFT,
        Cause.ROUTE,
        Cause.ROUTE_DRIFT,
        Cause.SERVE_SERVICE,
        Cause.SERVICE_DRIFT,
        Cause.HEAD_BUDGET,
        Cause.HEAD_BUDGET_DRIFT,
        Cause.STALE_BUDGET,
    }
)


def next_status(seen: ClusterSnapshot, outcome: Outcome) -> RayClusterStatus:
    old = seen.cluster.status
    if seen.violations:
        return _invalid(seen, old)
    whole = is_whole(seen) and all(_is_aside(failure) for failure in outcome.failures)
    status = msgspec.structs.replace(
        old,
        **_counts(seen),
        state=_state(seen, old.state, whole=whole),
        reason="" if whole else old.reason,
        endpoints=_endpoints(seen) or old.endpoints,
        head=_head_info(seen),
        conditions=_conditions(seen, outcome, whole=whole),
        observed_generation=_observed(seen),
        last_update_time=format_time(seen.now),
    )
    if status.state != old.state:
        times = {**old.state_transition_times, status.state: format_time(seen.now)}
        status = msgspec.structs.replace(status, state_transition_times=times)
    return status


def _observed(seen: ClusterSnapshot) -> int:
    if awaits_recreation(seen) or awaits_fewer_hosts(seen) or awaits_fewer_policies(seen):
        return seen.cluster.status.observed_generation
    return seen.cluster.metadata.generation


def _is_aside(failure: Failure) -> bool:
    """A cluster without its Ingress is a ready cluster; `Blocked` tells what it lacks."""
    return failure.action.cause in _ASIDE


def is_whole(seen: ClusterSnapshot) -> bool:
    """Head and all wanted workers are there, nothing else is, and all of them are ready."""
    wanted = scaling.desired_workers(seen.cluster.spec) + 1
    pods = [pod for pod in seen.pods if not lost_because(seen, pod)]
    return len(pods) == wanted and all_ready(pods)


def all_ready(pods: Sequence[Pod]) -> bool:
    return bool(pods) and all(is_ready(pod) for pod in pods)


def _invalid(seen: ClusterSnapshot, old: RayClusterStatus) -> RayClusterStatus:
    """Nothing was touched, so nothing else is said anew."""
    if not seen.settings.gates.ray_cluster_status_conditions:
        return old
    wanted = blocked_condition(seen, Outcome(), whole=False)
    conditions = set_condition(old.conditions, wanted, seen.now) if wanted else old.conditions
    if any(one.field.startswith("status.") for one in seen.violations):
        # Two halves of one suspension cannot both be: it is taken up again from its first half.
        conditions = _set(seen, conditions, ClusterConditionType.SUSPENDED, is_so=False)
    return msgspec.structs.replace(
        old,
        conditions=conditions,
        observed_generation=seen.cluster.metadata.generation,
        last_update_time=format_time(seen.now),
    )


def _state(seen: ClusterSnapshot, old: str, *, whole: bool) -> str:
    """KubeRay compatibility: once ready, it says so until it is suspended."""
    if seen.cluster.spec.suspend and not seen.pods:
        return ClusterState.SUSPENDED
    return ClusterState.READY if whole else old


def _counts(seen: ClusterSnapshot) -> dict[str, object]:
    spec = seen.cluster.spec
    resources = scaling.desired_resources(spec)
    return {
        "desired_worker_replicas": scaling.desired_workers(spec),
        "min_worker_replicas": scaling.min_workers(spec),
        "max_worker_replicas": scaling.max_workers(spec),
        "ready_worker_replicas": sum(is_ready(pod) for pod in seen.worker_pods),
        "available_worker_replicas": sum(is_running(pod) for pod in seen.worker_pods),
        "desired_cpu": str(resources.get("cpu", ZERO)),
        "desired_memory": str(resources.get("memory", ZERO)),
        "desired_gpu": str(scaling.total_gpus(resources)),
        "desired_tpu": str(scaling.total_tpus(resources)),
    }


def _endpoints(seen: ClusterSnapshot) -> dict[str, str]:
    service = seen.services.get(head_service_name(seen.cluster))
    ports = service.spec.ports if service else ()
    found = {port.name: str(port.node_port or port.target_port or "") for port in ports}
    return {name: value for name, value in found.items() if name and value}


def _head_name(seen: ClusterSnapshot, pod: Pod | None) -> str:
    """The head that is, or else the one that was: the name of its successor follows from it (ADR 9).
    A suspended cluster has no head, and says so as KubeRay does.

    Where no second head may come (SidecarMode), the name is all that tells that there was one. It is
    kept through a suspension too, unless its node refused the head before anything of it began.
    """
    if pod is None:
        is_over = bool(seen.cluster.spec.suspend) and not seen.submits_beside_head
        return "" if is_over else seen.cluster.status.head.pod_name
    never_begun = seen.submits_beside_head and was_never_begun(pod)
    return "" if never_begun else pod.metadata.name


def _head_info(seen: ClusterSnapshot) -> HeadInfo:
    pod = seen.head
    service = seen.services.get(head_service_name(seen.cluster))
    pod_ip = pod.status.pod_ip if pod else ""
    service_ip = service.spec.cluster_ip if service else ""
    return HeadInfo(
        pod_ip=pod_ip,
        pod_name=_head_name(seen, pod),
        service_ip=pod_ip if service_ip == "None" else service_ip,
        service_name=service.metadata.name if service else "",
    )


# ── conditions ───────────────────────────────────────────────────────────────────────────


def _conditions(seen: ClusterSnapshot, outcome: Outcome, *, whole: bool) -> Conditions:
    conditions = seen.cluster.status.conditions
    if not seen.settings.gates.ray_cluster_status_conditions:
        return conditions
    central = (one for one in outcome.failures if one.matters and not _is_aside(one))
    conditions = _replica_failure(seen, conditions, next(central, None))
    conditions = set_condition(conditions, head_pod_condition(seen.head), seen.now)
    blocked = blocked_condition(seen, outcome, whole=whole)
    conditions = _provisioned(seen, conditions, blocked)
    conditions = _suspension(seen, conditions)
    if blocked is None:
        return remove(conditions, BLOCKED)
    return set_condition(conditions, blocked, seen.now)


def _replica_failure(
    seen: ClusterSnapshot, conditions: Conditions, failure: Failure | None
) -> Conditions:
    """There only while something fails; a failure that is not about Pods changes nothing."""
    type_ = ClusterConditionType.REPLICA_FAILURE
    if failure is None:
        return remove(conditions, type_)
    reason = _REPLICA_FAILURES.get(Cause(failure.action.cause))
    if reason is None:
        return conditions
    message = str(failure.error)
    wanted = Condition(type=type_, status="True", reason=reason, message=message)
    return set_condition(conditions, wanted, seen.now)


def _progress(seen: ClusterSnapshot) -> str:
    """How far a cluster has come that is too large for one plan."""
    there, wanted = len(seen.worker_pods), scaling.desired_workers(seen.cluster.spec)
    return f" ({there} of {wanted} workers exist)" if wanted - there > MAX_CREATIONS else ""


def _provisioned(
    seen: ClusterSnapshot, conditions: Conditions, blocked: Condition | None
) -> Conditions:
    """Latched: True from the first time that all Pods were ready, until suspended."""
    type_ = ClusterConditionType.PROVISIONED
    if is_true(conditions, type_) or is_true(conditions, ClusterConditionType.SUSPENDED):
        return conditions
    if is_whole(seen):
        wanted = Condition(
            type=type_,
            status="True",
            reason=ClusterConditionReason.ALL_PODS_READY_FIRST_TIME,
            message="All Ray Pods are ready for the first time",
        )
    else:
        waiting = "RayCluster Pods are being provisioned for first time" + _progress(seen)
        wanted = Condition(
            type=type_,
            status="False",
            reason=ClusterConditionReason.PODS_PROVISIONING,
            message=f"{waiting}: {blocked.message}" if blocked else waiting,
        )
    return set_condition(conditions, wanted, seen.now)


def _suspension(seen: ClusterSnapshot, conditions: Conditions) -> Conditions:
    suspending, suspended = ClusterConditionType.SUSPENDING, ClusterConditionType.SUSPENDED
    if is_true(conditions, suspending):
        if seen.pods:
            return conditions
        was_suspended = Condition(
            type=ClusterConditionType.PROVISIONED,
            status="False",
            reason=ClusterConditionReason.PODS_PROVISIONING,
            message="RayCluster has been suspended",
        )
        conditions = set_condition(conditions, was_suspended, seen.now)
        conditions = _set(seen, conditions, suspending, is_so=False)
        return _set(seen, conditions, suspended, is_so=True)
    if is_true(conditions, suspended):
        # Absent is not false: only an explicit `suspend: false` resumes.
        resumes = seen.cluster.spec.suspend is False
        return _set(seen, conditions, suspended, is_so=False) if resumes else conditions
    conditions = _set(seen, conditions, suspended, is_so=False)
    return _set(seen, conditions, suspending, is_so=bool(seen.cluster.spec.suspend))


def _set(
    seen: ClusterSnapshot, conditions: Conditions, type_: ClusterConditionType, *, is_so: bool
) -> Conditions:
    status = "True" if is_so else "False"
    known = find(conditions, type_)
    if known is not None and known.status == status:
        return conditions
    return set_condition(conditions, Condition(type=type_, status=status, reason=type_), seen.now)


# ── when it is written ───────────────────────────────────────────────────────────────────


def differs(old: RayClusterStatus, new: RayClusterStatus) -> bool:
    """KubeRay's rule: times, generation and resources alone are not worth a write."""
    return _compared(old) != _compared(new)


def _compared(status: RayClusterStatus) -> tuple[object, ...]:
    return (
        status.state,
        status.reason,
        status.ready_worker_replicas,
        status.available_worker_replicas,
        status.desired_worker_replicas,
        status.min_worker_replicas,
        status.max_worker_replicas,
        status.endpoints,
        status.head,
        status.conditions,
    )
