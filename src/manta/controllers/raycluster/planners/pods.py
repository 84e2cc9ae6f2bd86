"""Head first, then workers: a cluster without head gets no workers."""

from __future__ import annotations

from manta.controllers.raycluster.planners.head_pod import creates_gated, is_gated, plan_head_pod
from manta.controllers.raycluster.planners.rolling_update import (
    plan_rolling_groups,
    plan_rolling_head,
)
from manta.controllers.raycluster.planners.worker_group import plan_worker_groups
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.plan import Plan, earliest_wait, merge


def plan_pods(snapshot: ClusterSnapshot) -> Plan:
    """Workers are planned too while a head is being deleted or waits to be replaced."""
    head = plan_head_pod(snapshot)
    if head.wait and head.wait.retry_in is None:
        return head
    if any(is_gated(pod) for pod in snapshot.head_pods) or creates_gated(head):
        return (
            head  # workers that are scheduled before the head could take its place on a full node
        )
    rollout = snapshot.rollout
    if rollout is None:
        workers = plan_worker_groups(snapshot)
    else:
        workers = plan_rolling_groups(snapshot, rollout)
        head = merge([head, plan_rolling_head(rollout)])
    notes = head.notes + workers.notes
    return Plan(
        head.stages + workers.stages,
        earliest_wait((head.wait, workers.wait)),
        notes,
        workers.unfinished,
        head.blocked_by or workers.blocked_by,
    )
