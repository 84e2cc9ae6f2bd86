"""What a StatefulSet reports. Pure."""

from __future__ import annotations

from manta.localplane.builtin.statefulset.snapshot import (
    StatefulSetSnapshot,
    is_running,
    revision_of_pod,
)
from manta.localplane.builtin.workload_views import StatefulSetStatus


def next_status(seen: StatefulSetSnapshot) -> StatefulSetStatus:
    """The Pods as they were observed. The update revision becomes current when all Pods have it."""
    pods = list(seen.members.values())
    staying = [revision_of_pod(pod) for pod in pods if not pod.is_deleting]
    ready = sum(is_running(pod) for pod in pods)
    updated = staying.count(seen.update_revision)
    rolling = seen.stateful_set.spec.update_strategy.type == "RollingUpdate"
    complete = rolling and updated == len(pods) == ready
    current = seen.update_revision if complete else seen.current_revision
    return StatefulSetStatus(
        replicas=len(pods),
        available_replicas=sum(seen.is_available(pod) for pod in pods),
        ready_replicas=ready or None,
        current_replicas=staying.count(current) or None,
        updated_replicas=updated or None,
        current_revision=current,
        update_revision=seen.update_revision,
        observed_generation=seen.stateful_set.metadata.generation,
        collision_count=0,
        conditions=seen.stateful_set.status.conditions,
    )
