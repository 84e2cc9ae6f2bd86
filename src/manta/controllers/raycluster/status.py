"""`.status` after a reconcile, from the snapshot and the outcome.

KubeRay's fields, conditions and latches, and one more condition (`conditions.py`). Pods that this
reconcile created are counted in the next one.
"""

from __future__ import annotations

import msgspec

from manta.api.conditions import Blockage, find, is_true, remove, set_condition
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
from manta.controllers.raycluster.blocked import blocked_condition, same_failure
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import (
    all_pods_ready,
    awaits_fewer_hosts,
    awaits_fewer_policies,
    awaits_recreation,
    awaits_revision,
    known_address,
    submitted_nothing,
)
from manta.controllers.raycluster.head_condition import head_pod_condition
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.causes import ActionCause
from manta.reconcile.failures import shown_error
from manta.reconcile.outcome import Failure, Outcome
from manta.reconcile.plan import MAX_CREATIONS
from manta.rules import scaling
from manta.rules.pod_health import is_ready, is_running
from manta.rules.rolling_update import rolling_update
from manta.rules.traits import head_service_name

Conditions = tuple[Condition, ...]

_REPLICA_FAILURES: dict[ActionCause, str] = {
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
    Cause.ROLLED_WORKER: "FailedDeleteWorkerPod",
    Cause.ROLLED_HEAD: "FailedDeleteHeadPod",
}


_OPTIONAL = frozenset(
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


def next_status(
    snapshot: ClusterSnapshot, outcome: Outcome, waits_for: Blockage | None = None
) -> RayClusterStatus:
    """`waits_for`: what the plan is blocked by."""
    old = snapshot.cluster.status
    if snapshot.violations:
        return _invalid(snapshot, old)
    pods_ready = all_pods_ready(snapshot) and all(
        _is_optional(failure) for failure in outcome.failures
    )
    status = msgspec.structs.replace(
        old,
        **_counts(snapshot),
        state=_state(snapshot, old.state, pods_ready=pods_ready),
        reason="" if pods_ready else old.reason,
        endpoints=_endpoints(snapshot) or old.endpoints,
        head=_head_info(snapshot),
        conditions=_conditions(snapshot, outcome, pods_ready=pods_ready, waits_for=waits_for),
        observed_generation=_observed(snapshot),
        last_update_time=format_time(snapshot.now),
    )
    if status.state != old.state:
        times = {**old.state_transition_times, status.state: format_time(snapshot.now)}
        status = msgspec.structs.replace(status, state_transition_times=times)
    return status


def _observed(snapshot: ClusterSnapshot) -> int:
    if (
        awaits_recreation(snapshot)
        or awaits_fewer_hosts(snapshot)
        or awaits_fewer_policies(snapshot)
        or awaits_revision(snapshot)
    ):
        return snapshot.cluster.status.observed_generation
    return snapshot.cluster.metadata.generation


def _is_optional(failure: Failure) -> bool:
    """A cluster without its Ingress is ready; `Blocked` says what is missing."""
    return failure.action.cause in _OPTIONAL


def _invalid(snapshot: ClusterSnapshot, old: RayClusterStatus) -> RayClusterStatus:
    """Nothing was done, so only the conditions change."""
    if not snapshot.settings.gates.ray_cluster_status_conditions:
        return old
    wanted = blocked_condition(snapshot, Outcome(), pods_ready=False)
    conditions = set_condition(old.conditions, wanted, snapshot.now) if wanted else old.conditions
    if any(one.field.startswith("status.") for one in snapshot.violations):
        # Suspending and Suspended cannot both be true: start again with Suspending.
        conditions = _set(snapshot, conditions, ClusterConditionType.SUSPENDED, is_so=False)
    return msgspec.structs.replace(
        old,
        conditions=conditions,
        observed_generation=snapshot.cluster.metadata.generation,
        last_update_time=format_time(snapshot.now),
    )


def _state(snapshot: ClusterSnapshot, old: str, *, pods_ready: bool) -> str:
    """As in KubeRay, a cluster that was ready stays ready until it is suspended."""
    if snapshot.cluster.spec.suspend and not snapshot.pods:
        return ClusterState.SUSPENDED
    return ClusterState.READY if pods_ready else old


def _counts(snapshot: ClusterSnapshot) -> dict[str, object]:
    spec = snapshot.cluster.spec
    resources = scaling.desired_resources(spec)
    return {
        "desired_worker_replicas": scaling.desired_workers(spec),
        "min_worker_replicas": scaling.min_workers(spec),
        "max_worker_replicas": scaling.max_workers(spec),
        "ready_worker_replicas": sum(is_ready(pod) for pod in snapshot.worker_pods),
        "available_worker_replicas": sum(is_running(pod) for pod in snapshot.worker_pods),
        "desired_cpu": str(resources.get("cpu", ZERO)),
        "desired_memory": str(resources.get("memory", ZERO)),
        "desired_gpu": str(scaling.total_gpus(resources)),
        "desired_tpu": str(scaling.total_tpus(resources)),
    }


def _endpoints(snapshot: ClusterSnapshot) -> dict[str, str]:
    service = snapshot.services.get(head_service_name(snapshot.cluster))
    ports = service.spec.ports if service else ()
    found = {port.name: str(port.node_port or port.target_port or "") for port in ports}
    return {name: value for name, value in found.items() if name and value}


def _head_name(snapshot: ClusterSnapshot, pod: Pod | None) -> str:
    """The name of the head, or of the last head: the next name is derived from it (ADR 9). It is empty
    for a suspended cluster, as in KubeRay, if a condition records its return.

    Where no second head may be created (SidecarMode), only this name records that there was one. It
    is kept during a suspension too, unless its node rejected the head before a container started.
    """
    if pod is None:
        records_return = snapshot.settings.gates.ray_cluster_status_conditions
        if snapshot.cluster.spec.suspend and records_return and not snapshot.submits_beside_head:
            return ""
        return snapshot.unnamed_head or snapshot.cluster.status.head.pod_name
    return "" if submitted_nothing(snapshot, pod) else pod.metadata.name


def _head_address(snapshot: ClusterSnapshot, pod: Pod | None) -> str:
    """In SidecarMode the address of a head stays while the Pod does, as the sign that it has run."""
    if pod is None:
        return ""
    stays = snapshot.submits_beside_head
    return pod.status.pod_ip or (known_address(snapshot, pod) if stays else "")


def _head_info(snapshot: ClusterSnapshot) -> HeadInfo:
    pod = snapshot.head
    service = snapshot.services.get(head_service_name(snapshot.cluster))
    pod_ip = pod.status.pod_ip if pod else ""
    service_ip = service.spec.cluster_ip if service else ""
    return HeadInfo(
        pod_ip=_head_address(snapshot, pod),
        pod_name=_head_name(snapshot, pod),
        service_ip=pod_ip if service_ip == "None" else service_ip,
        service_name=service.metadata.name if service else "",
    )


# ── conditions ───────────────────────────────────────────────────────────────────────────


def _conditions(
    snapshot: ClusterSnapshot, outcome: Outcome, *, pods_ready: bool, waits_for: Blockage | None
) -> Conditions:
    conditions = snapshot.cluster.status.conditions
    if not snapshot.settings.gates.ray_cluster_status_conditions:
        return conditions
    central = (one for one in outcome.failures if one.matters and not _is_optional(one))
    conditions = _replica_failure(snapshot, conditions, next(central, None))
    conditions = set_condition(conditions, head_pod_condition(snapshot.head), snapshot.now)
    blocked = blocked_condition(snapshot, outcome, pods_ready=pods_ready, waits_for=waits_for)
    conditions = _provisioned(snapshot, conditions, blocked)
    conditions = _suspension(snapshot, conditions)
    conditions = _rolling_update(snapshot, conditions)
    if blocked is None:
        return remove(conditions, ClusterConditionType.BLOCKED)
    return set_condition(conditions, blocked, snapshot.now)


def _replica_failure(
    snapshot: ClusterSnapshot, conditions: Conditions, failure: Failure | None
) -> Conditions:
    """Present only while an action on Pods fails."""
    type_ = ClusterConditionType.REPLICA_FAILURE
    if failure is None:
        return remove(conditions, type_)
    reason = _REPLICA_FAILURES.get(failure.action.cause)
    if reason is None:
        return conditions
    message = shown_error(failure)
    wanted = Condition(type=type_, status="True", reason=reason, message=message)
    return set_condition(conditions, same_failure(find(conditions, type_), wanted), snapshot.now)


def _progress(snapshot: ClusterSnapshot) -> str:
    """The progress of a cluster that is too large for one plan."""
    there, wanted = len(snapshot.worker_pods), scaling.desired_workers(snapshot.cluster.spec)
    return f" ({there} of {wanted} workers exist)" if wanted - there > MAX_CREATIONS else ""


def _provisioned(
    snapshot: ClusterSnapshot, conditions: Conditions, blocked: Condition | None
) -> Conditions:
    """Latched: True from the first time that all Pods are ready until it is suspended."""
    type_ = ClusterConditionType.PROVISIONED
    if is_true(conditions, type_) or is_true(conditions, ClusterConditionType.SUSPENDED):
        return conditions
    if all_pods_ready(snapshot):
        wanted = Condition(
            type=type_,
            status="True",
            reason=ClusterConditionReason.ALL_PODS_READY_FIRST_TIME,
            message="All Ray Pods are ready for the first time",
        )
    else:
        waiting = "RayCluster Pods are being provisioned for first time" + _progress(snapshot)
        wanted = Condition(
            type=type_,
            status="False",
            reason=ClusterConditionReason.PODS_PROVISIONING,
            message=f"{waiting}: {blocked.message}" if blocked else waiting,
        )
    return set_condition(conditions, wanted, snapshot.now)


def _rolling_update(snapshot: ClusterSnapshot, conditions: Conditions) -> Conditions:
    """Present only while the strategy is RollingUpdate."""
    if rolling_update(snapshot.cluster) is None:
        return remove(conditions, ClusterConditionType.ROLLING_UPDATE)
    from manta.controllers.raycluster.rollout.condition import rollout_condition

    wanted = rollout_condition(snapshot)
    return set_condition(conditions, wanted, snapshot.now) if wanted else conditions


def _suspension(snapshot: ClusterSnapshot, conditions: Conditions) -> Conditions:
    suspending, suspended = ClusterConditionType.SUSPENDING, ClusterConditionType.SUSPENDED
    if is_true(conditions, suspending):
        if snapshot.pods:
            return conditions
        was_suspended = Condition(
            type=ClusterConditionType.PROVISIONED,
            status="False",
            reason=ClusterConditionReason.PODS_PROVISIONING,
            message="RayCluster has been suspended",
        )
        conditions = set_condition(conditions, was_suspended, snapshot.now)
        conditions = _set(snapshot, conditions, suspending, is_so=False)
        return _set(snapshot, conditions, suspended, is_so=True)
    if is_true(conditions, suspended):
        # Absent is not false: only an explicit `suspend: false` resumes.
        resumes = snapshot.cluster.spec.suspend is False
        return _resumed(snapshot, conditions) if resumes else conditions
    conditions = _set(snapshot, conditions, suspended, is_so=False)
    return _set(snapshot, conditions, suspending, is_so=bool(snapshot.cluster.spec.suspend))


def _resumed(snapshot: ClusterSnapshot, conditions: Conditions) -> Conditions:
    """The generation that resumed it stays the same until the next suspension: the name of the head is derived
    from it."""
    wanted = Condition(
        type=ClusterConditionType.SUSPENDED,
        status="False",
        reason=ClusterConditionType.SUSPENDED,
        observed_generation=snapshot.cluster.metadata.generation,
    )
    return set_condition(conditions, wanted, snapshot.now)


def _set(
    snapshot: ClusterSnapshot, conditions: Conditions, type_: ClusterConditionType, *, is_so: bool
) -> Conditions:
    status = "True" if is_so else "False"
    known = find(conditions, type_)
    if known is not None and known.status == status:
        return conditions
    return set_condition(
        conditions, Condition(type=type_, status=status, reason=type_), snapshot.now
    )


# ── comparison ──────────────────────────────────────────────────────────────────────────


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
