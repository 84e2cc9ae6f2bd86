"""What a RayJob waits for, in one CamelCase word and one sentence that names the culprit (C29)."""

from __future__ import annotations

from typing import Final

from manta.api.conditions import find
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.job import SubmissionMode
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.rules.pod_health import Blockage, blockage, is_terminating
from manta.rules.traits import has_dashboard

CLUSTER_MISSING: Final = "RayClusterNotFound"
NO_DASHBOARD: Final = "NoDashboard"
CLUSTER_NOT_READY: Final = "RayClusterNotReady"
DASHBOARD_SILENT: Final = "DashboardSilent"

_TROUBLES = ("Blocked", ClusterConditionType.REPLICA_FAILURE)
"""Conditions of the cluster that are bad when they are True; the first names the Pod."""
_WANTED = (ClusterConditionType.HEAD_POD_READY, ClusterConditionType.PROVISIONED)


def cluster_missing(seen: JobSnapshot) -> Blockage:
    name = seen.status.ray_cluster_name
    why = f'clusterSelector names RayCluster "{name}", and there is none in this namespace'
    return Blockage(CLUSTER_MISSING, why)


def dashboard_missing(seen: JobSnapshot) -> Blockage | None:
    """A borrowed cluster may have been started without the one thing that takes jobs."""
    if seen.cluster is None or has_dashboard(seen.cluster.spec):
        return None
    name = seen.cluster.metadata.name
    why = (
        f"RayCluster {name} runs without a dashboard, which is what takes jobs: "
        "remove include-dashboard from its rayStartParams"
    )
    return Blockage(NO_DASHBOARD, why)


def cluster_not_ready(seen: JobSnapshot) -> Blockage:
    """The cluster's own words on what keeps it from being ready; they name the Pod."""
    assert seen.cluster is not None
    name, conditions = seen.cluster.metadata.name, seen.cluster.status.conditions
    told = [(type_, "True") for type_ in _TROUBLES] + [(type_, "False") for type_ in _WANTED]
    for type_, bad in told:
        condition = find(conditions, type_)
        if condition is not None and condition.status == bad and condition.message:
            return Blockage(
                condition.reason or CLUSTER_NOT_READY, f"RayCluster {name}: {condition.message}"
            )
    if seen.cluster.spec.suspend:
        return Blockage("RayClusterSuspended", f"RayCluster {name} is suspended")
    return Blockage(CLUSTER_NOT_READY, f"waiting for RayCluster {name} to be ready")


def submitter_at_work(seen: JobSnapshot) -> Blockage:
    """What keeps the submitter from submitting: an image, a node that has no room, or only time."""
    for pod in seen.submitter_pods:
        found = None if is_terminating(pod) else blockage(pod)
        if found is not None:
            return Blockage(found.reason, f"the submitter: {found.message}")
    if seen.mode is SubmissionMode.SIDECAR and seen.sidecar is not None:
        waiting = seen.sidecar.state.waiting
        if waiting is not None and waiting.message:
            return Blockage(waiting.reason, f"the submitter: {waiting.message}")
    return Blockage("Submitting", "the submitter is at work")


def suspended(seen: JobSnapshot) -> str:
    """Who suspended it: a queue, as far as it says so in its label, or the user."""
    queue = seen.job.metadata.labels.get(names.LABEL_KUEUE_QUEUE)
    held = f"it is held in queue {queue}" if queue else "spec.suspend is true"
    return f"{held}; nothing runs until that changes"
