"""Suspend and resume. The conditions carry the state: a suspension that began is completed, even
if `suspend` is taken back meanwhile, so that nobody ever sees half a cluster."""

from __future__ import annotations

from manta.api.ray.cluster import ClusterConditionType
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.worker_group import deletions
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.plan import NOTHING, Plan, Wait, do


def plan_suspension(seen: ClusterSnapshot) -> Plan:
    wanted = bool(seen.cluster.spec.suspend)
    if not seen.settings.gates.ray_cluster_status_conditions:
        return _remove_all(seen) if wanted else NOTHING
    if seen.condition(ClusterConditionType.SUSPENDING):
        return _remove_all(seen)
    if seen.condition(ClusterConditionType.SUSPENDED):
        # Resuming is said in the status first; the Pods come in the round after that.
        return Plan(wait=Wait("the cluster is suspended"))
    if wanted:
        return Plan(wait=Wait("the suspension is written to the status before any Pod goes"))
    return NOTHING


def _remove_all(seen: ClusterSnapshot) -> Plan:
    actions = deletions(seen.pods, Cause.SUSPENDED, "the cluster is being suspended")
    return do(*actions, wait=Wait("all Pods are going away: the cluster is being suspended"))
