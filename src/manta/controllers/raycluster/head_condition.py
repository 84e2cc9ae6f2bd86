"""The condition HeadPodReady: the head Pod's own Ready condition, with the cause behind it."""

from __future__ import annotations

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.ray.cluster import ClusterConditionReason, ClusterConditionType


def head_pod_condition(pod: Pod | None) -> Condition:
    type_ = ClusterConditionType.HEAD_POD_READY
    if pod is None:
        gone = ClusterConditionReason.HEAD_POD_NOT_FOUND
        return Condition(type=type_, status="False", reason=gone, message="Head Pod not found")
    ready = find(pod.status.conditions, "Ready")
    if ready is None:
        unknown = ClusterConditionReason.UNKNOWN
        return Condition(type=type_, status="False", reason=unknown)
    reason, message = ready.reason, ready.message
    if reason == "ContainersNotReady":
        trouble = _first_trouble(pod)
        if trouble is not None:
            reason = trouble[0]
            message = "; ".join(part for part in (message, trouble[1]) if part)
    if not reason:
        is_ready = ready.status == "True"
        known = ClusterConditionReason
        reason = known.HEAD_POD_READY if is_ready else known.UNKNOWN
    return Condition(type=type_, status=ready.status, reason=reason, message=message)


def _first_trouble(pod: Pod) -> tuple[str, str] | None:
    """Reason and text of the first container that does not run; the Pod's own message names it already."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        state = status.state.waiting or status.state.terminated
        if state is not None and state.reason and state.reason != "Completed":
            message = " ".join(state.message.split())
            return state.reason, f"{status.name}: {message}" if message else ""
    return None
