"""What a RayJob waits for: a reason and a message that names the object at fault (C29)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from manta.api.conditions import Blockage, find
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.job import SubmissionMode
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.rules.pod_health import blockage, is_terminating, slow_start, start_overdue_at
from manta.rules.traits import has_dashboard

CLUSTER_MISSING: Final = "RayClusterNotFound"
NO_DASHBOARD: Final = "NoDashboard"
CLUSTER_NOT_READY: Final = "RayClusterNotReady"
DASHBOARD_SILENT: Final = "DashboardSilent"

_BAD_IF_TRUE = (ClusterConditionType.BLOCKED, ClusterConditionType.REPLICA_FAILURE)
"""Conditions of the RayCluster; the first names the Pod."""
_BAD_IF_FALSE = (ClusterConditionType.HEAD_POD_READY, ClusterConditionType.PROVISIONED)


def cluster_missing(snapshot: JobSnapshot) -> Blockage:
    name = snapshot.status.ray_cluster_name
    why = f'clusterSelector names RayCluster "{name}", and there is none in this namespace'
    return Blockage(CLUSTER_MISSING, why)


def dashboard_missing(snapshot: JobSnapshot) -> Blockage | None:
    """A borrowed cluster may run without a dashboard, which accepts jobs."""
    if snapshot.cluster is None or has_dashboard(snapshot.cluster.spec):
        return None
    name = snapshot.cluster.metadata.name
    why = (
        f"RayCluster {name} runs without a dashboard, which accepts jobs: "
        "remove include-dashboard from its rayStartParams"
    )
    return Blockage(NO_DASHBOARD, why)


def cluster_not_ready(snapshot: JobSnapshot) -> Blockage:
    """The condition of the RayCluster that says why it is not ready; its message names the Pod."""
    assert snapshot.cluster is not None
    name, conditions = snapshot.cluster.metadata.name, snapshot.cluster.status.conditions
    bad_values = dict.fromkeys(_BAD_IF_TRUE, "True") | dict.fromkeys(_BAD_IF_FALSE, "False")
    for type_, bad in bad_values.items():
        condition = find(conditions, type_)
        if condition is not None and condition.status == bad and condition.message:
            reason = condition.reason or CLUSTER_NOT_READY
            return Blockage(reason, f"RayCluster {name}: {condition.message}")
    if snapshot.cluster.spec.suspend:
        return Blockage("RayClusterSuspended", f"RayCluster {name} is suspended")
    return Blockage(CLUSTER_NOT_READY, f"waiting for RayCluster {name} to be ready")


def submitter_not_done(snapshot: JobSnapshot) -> Blockage:
    """Why the submitter has not submitted yet: its image, scheduling, or it is still running."""
    for pod in snapshot.submitter_pods:
        found = None if is_terminating(pod) else blockage(pod) or slow_start(pod, snapshot.now)
        if found is not None:
            return Blockage(found.reason, f"the submitter: {found.message}")
    if snapshot.mode is SubmissionMode.SIDECAR and snapshot.sidecar is not None:
        waiting = snapshot.sidecar.state.waiting
        if waiting is not None and waiting.message:
            return Blockage(waiting.reason, f"the submitter: {waiting.message}")
    return Blockage("Submitting", "the submitter is running")


def submitter_overdue_in(snapshot: JobSnapshot) -> timedelta | None:
    """When a submitter that is still being created counts as a problem; None if none is, or one is."""
    overdue = (start_overdue_at(pod) for pod in snapshot.submitter_pods)
    return min((at - snapshot.now for at in overdue if at and at > snapshot.now), default=None)


def suspended(snapshot: JobSnapshot) -> str:
    """What suspends the RayJob: the queue in its label, or `spec.suspend`."""
    queue = snapshot.job.metadata.labels.get(names.LABEL_KUEUE_QUEUE)
    held = f"it is held in queue {queue}" if queue else "spec.suspend is true"
    return f"{held}; nothing runs until that changes"
