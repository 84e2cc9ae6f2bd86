"""What a ReplicaSet says about itself. Pure."""

from __future__ import annotations

from datetime import timedelta

from manta.api.times import format_time
from manta.localplane.builtin.owned_pods import available_in
from manta.localplane.builtin.replicaset.plan import Cause
from manta.localplane.builtin.replicaset.snapshot import ReplicaSetSnapshot
from manta.localplane.builtin.views import ReplicaSetStatus, WorkloadCondition
from manta.reconcile.outcome import Outcome

FAILURE = "ReplicaFailure"


def next_status(snapshot: ReplicaSetSnapshot, outcome: Outcome) -> ReplicaSetStatus:
    """Counts the Pods of the snapshot; Pods that this reconcile created are counted in the next."""
    replica_set, replicas = snapshot.replica_set, snapshot.replicas
    template = (replica_set.spec.template.get("metadata") or {}).get("labels") or {}
    seconds = replica_set.spec.min_ready_seconds
    waits = [available_in(pod, seconds, snapshot.now) for pod in replicas]
    leaving = sum(pod.is_deleting and not pod.is_terminal for pod in snapshot.pods)
    return ReplicaSetStatus(
        replicas=len(replicas),
        fully_labeled_replicas=_number(
            sum(template.items() <= pod.metadata.labels.items() for pod in replicas)
        ),
        ready_replicas=_number(sum(pod.is_ready for pod in replicas)),
        available_replicas=_number(sum(wait == timedelta(0) for wait in waits)),
        terminating_replicas=leaving,
        observed_generation=replica_set.metadata.generation,
        conditions=_conditions(snapshot, outcome),
    )


def _conditions(
    snapshot: ReplicaSetSnapshot, outcome: Outcome
) -> tuple[WorkloadCondition, ...] | None:
    """ReplicaFailure stands as long as Pods cannot be created or deleted."""
    known = snapshot.replica_set.status.conditions or ()
    others = tuple(one for one in known if one.type != FAILURE)
    failure = outcome.failure
    if failure is None or failure.action.cause not in (Cause.CREATE, Cause.SURPLUS):
        return others or None
    reason = "FailedCreate" if failure.action.cause is Cause.CREATE else "FailedDelete"
    current = next((one for one in known if one.type == FAILURE), None)
    if current and current.reason == reason:
        return known
    failed = WorkloadCondition(
        type=FAILURE,
        status="True",
        last_transition_time=format_time(snapshot.now),
        reason=reason,
        message=str(failure.error),
    )
    return (*others, failed)


def _number(count: int) -> int | None:
    return count or None
