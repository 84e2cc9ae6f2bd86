"""What a DaemonSet reports. Pure."""

from __future__ import annotations

from manta.localplane.builtin.daemonset.snapshot import DaemonSetSnapshot
from manta.localplane.builtin.views import Pod
from manta.localplane.builtin.workload_views import DaemonSetStatus


def next_status(snapshot: DaemonSetSnapshot) -> DaemonSetStatus:
    by_node, allowed = snapshot.by_node, snapshot.eligibilities()
    wanted = [node for node, one in allowed.items() if one.may_start]
    placed = [by_node[node] for node in wanted if by_node.get(node)]
    firsts = [_representative(snapshot, pods) for pods in placed]
    available = sum(any(snapshot.is_available(pod) for pod in pods) for pods in placed)
    misplaced = sum(bool(by_node.get(node)) for node, one in allowed.items() if not one.may_start)
    return DaemonSetStatus(
        current_number_scheduled=len(placed),
        number_misscheduled=misplaced,
        desired_number_scheduled=len(wanted),
        number_ready=sum(any(pod.is_ready for pod in pods) for pods in placed),
        updated_number_scheduled=sum(snapshot.is_updated(pod) for pod in firsts) or None,
        number_available=available or None,
        number_unavailable=(len(wanted) - available) or None,
        observed_generation=snapshot.daemon_set.metadata.generation,
        collision_count=snapshot.daemon_set.status.collision_count,
        conditions=snapshot.daemon_set.status.conditions,
    )


def _representative(snapshot: DaemonSetSnapshot, pods: list[Pod]) -> Pod:
    """The Pod that counts for a node: of several, the updated one."""
    return next((pod for pod in pods if snapshot.is_updated(pod)), pods[0])
