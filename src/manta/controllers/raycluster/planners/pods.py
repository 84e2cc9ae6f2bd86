"""Head first, then workers: a cluster that cannot get its head gets no workers either."""

from __future__ import annotations

from manta.controllers.raycluster.planners.head_pod import plan_head_pod
from manta.controllers.raycluster.planners.joining import earliest
from manta.controllers.raycluster.planners.worker_group import plan_worker_groups
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.plan import Plan


def plan_pods(seen: ClusterSnapshot) -> Plan:
    """While a head is on its way out or waits to be replaced, workers are still looked after."""
    head = plan_head_pod(seen)
    if head.wait and head.wait.retry_in is None:
        return head
    workers = plan_worker_groups(seen)
    waits = [plan.wait for plan in (head, workers) if plan.wait]
    notes = head.notes + workers.notes
    return Plan(head.stages + workers.stages, earliest(waits), notes, workers.unfinished)
