"""Pods that are being deleted, cannot run any more, and do not go away by themselves."""

from __future__ import annotations

from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.terminating import lost_because
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.actions import Delete
from manta.reconcile.plan import Plan, do


def plan_lost_pods(seen: ClusterSnapshot) -> Plan:
    """Remove them from the API server. A Pod with finalizers stays until their owners remove them;
    it is no longer counted."""
    deletions = [
        Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.POD_LOST, why, grace_seconds=0)
        for pod in (*seen.pods, *seen.strangers)
        if (why := lost_because(seen, pod)) and not pod.metadata.finalizers
    ]
    return do(*deletions, independent=True)
