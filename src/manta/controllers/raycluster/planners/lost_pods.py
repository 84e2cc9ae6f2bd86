"""Terminating Pods that can no longer run and are stuck."""

from __future__ import annotations

from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import lost_because
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.actions import Delete
from manta.reconcile.plan import Plan, do


def plan_lost_pods(snapshot: ClusterSnapshot) -> Plan:
    """Delete them without grace. A Pod with finalizers stays, but no longer counts."""
    deletions = [
        Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.POD_LOST, why, grace_seconds=0)
        for pod in (*snapshot.pods, *snapshot.foreign_pods)
        if (why := lost_because(snapshot, pod)) and not pod.metadata.finalizers
    ]
    return do(*deletions, independent=True)
