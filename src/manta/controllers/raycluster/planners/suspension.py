"""Suspend and resume. The conditions hold the state: a suspension that began is completed, even if
`suspend` is reset meanwhile."""

from __future__ import annotations

from manta.api.ray.cluster import ClusterConditionType
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.pod_deletions import deletions
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.plan import NOTHING, Plan, Wait, do


def plan_suspension(snapshot: ClusterSnapshot) -> Plan:
    wanted = bool(snapshot.cluster.spec.suspend)
    if not snapshot.settings.gates.ray_cluster_status_conditions:
        return _remove_all(snapshot) if wanted else NOTHING
    if snapshot.condition(ClusterConditionType.SUSPENDING):
        return _remove_all(snapshot)
    if snapshot.condition(ClusterConditionType.SUSPENDED):
        # The status records the resumption first; the next reconcile creates the Pods.
        return Plan(wait=Wait("the cluster is suspended"))
    if wanted:
        return Plan(wait=Wait("the status records the suspension before any Pod is deleted"))
    return NOTHING


def _remove_all(snapshot: ClusterSnapshot) -> Plan:
    actions = deletions(snapshot.pods, Cause.SUSPENDED, "the cluster is being suspended")
    return do(*actions, wait=Wait("all Pods are being deleted: the cluster is being suspended"))
