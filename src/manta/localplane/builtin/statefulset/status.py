"""What a StatefulSet reports. Pure."""

from __future__ import annotations

from manta.localplane.builtin.statefulset.snapshot import (
    StatefulSetSnapshot,
    is_running,
    revision_of_pod,
)
from manta.localplane.builtin.workload_views import StatefulSetStatus


def next_status(snapshot: StatefulSetSnapshot) -> StatefulSetStatus:
    """The Pods as they were observed. The update revision becomes current when all Pods have it."""
    pods = list(snapshot.members.values())
    staying = [revision_of_pod(pod) for pod in pods if not pod.is_deleting]
    ready = sum(is_running(pod) for pod in pods)
    updated = staying.count(snapshot.update_revision)
    rolling = snapshot.stateful_set.spec.update_strategy.type == "RollingUpdate"
    complete = rolling and updated == len(pods) == ready
    current = snapshot.update_revision if complete else snapshot.current_revision
    return StatefulSetStatus(
        replicas=len(pods),
        available_replicas=sum(snapshot.is_available(pod) for pod in pods),
        ready_replicas=ready or None,
        current_replicas=staying.count(current) or None,
        updated_replicas=updated or None,
        current_revision=current,
        update_revision=snapshot.update_revision,
        observed_generation=snapshot.stateful_set.metadata.generation,
        collision_count=0,
        conditions=snapshot.stateful_set.status.conditions,
    )
