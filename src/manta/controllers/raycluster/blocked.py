"""What keeps a cluster from being whole, in the words of the condition `Blocked`.

In this order: the spec is invalid; something that we tried was refused (quota, webhook, a name
that is taken); the head is held up; a worker is. The first is told, with the number of the rest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.times import parse_time
from manta.controllers.raycluster.conditions import BLOCKED
from manta.controllers.raycluster.lost_nodes import OUT_OF_SERVICE
from manta.controllers.raycluster.planners.autoscaler_rbac import missing_account
from manta.controllers.raycluster.planners.certificates import expiring, outdated, unissued
from manta.controllers.raycluster.planners.terminating import is_stuck, lost_because
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.warnings import invalid_reason
from manta.kube.errors import Conflict, Unreachable
from manta.reconcile.actions import Call
from manta.reconcile.outcome import Failure, Outcome
from manta.rules.pod_health import POD_FAILED, Blockage, blockage, is_ready, is_terminating
from manta.rules.validation.violation import sentence

SETTLED: Final = timedelta(seconds=60)


def blocked_condition(seen: ClusterSnapshot, outcome: Outcome, *, whole: bool) -> Condition | None:
    """None when nothing is wrong. What was wrong is told until the cluster is whole again."""
    if seen.violations:
        return _told(Blockage(invalid_reason(seen.violations), sentence(seen.violations)))
    trouble = _refusal(outcome.failure) or _obstacle(seen) or _held_up(seen)
    if trouble is not None:
        return _told(trouble)
    known = find(seen.cluster.status.conditions, BLOCKED)
    if known is None or known.reason.startswith("Invalid") or seen.cluster.spec.suspend:
        return None
    is_over = whole and (known.reason != POD_FAILED or has_settled(seen))
    return None if is_over else known


def has_settled(seen: ClusterSnapshot) -> bool:
    """Pods that fail soon after they were ready are still failing: a minute tells (C23)."""
    for pod in seen.pods:
        ready = find(pod.status.conditions, "Ready")
        since = ready.last_transition_time if ready else None
        if since and seen.now - parse_time(since) < SETTLED:
            return False
    return True


def _told(trouble: Blockage) -> Condition:
    return Condition(type=BLOCKED, status="True", reason=trouble.reason, message=trouble.message)


def _refusal(failure: Failure | None) -> Blockage | None:
    if failure is None or isinstance(failure.error, Conflict | Unreachable):
        return None
    reason = getattr(failure.error, "reason", "") or type(failure.error).__name__
    action = failure.action
    kind = "" if isinstance(action, Call) else f"{action.resource.kind} "
    verb = type(action).__name__.lower()
    return Blockage(reason, f"cannot {verb} {kind}{action.key}: {failure.error}")


def _obstacle(seen: ClusterSnapshot) -> Blockage | None:
    account = missing_account(seen)
    if account:
        message = f"the head names ServiceAccount {account}, which does not exist: create it"
        return Blockage("AutoscalerServiceAccountNotFound", message)
    if why := unissued(seen) or outdated(seen):
        return Blockage("MTLSCertsNotReady", why)
    if why := expiring(seen):
        return Blockage("MTLSCertificateExpiringSoon", why)
    return None


def _held_up(seen: ClusterSnapshot) -> Blockage | None:
    found = [
        one for pod in (*seen.head_pods, *seen.worker_pods) if (one := _pod_trouble(seen, pod))
    ]
    if not found:
        return None
    first, more = found[0], len(found) - 1
    if not more:
        return first
    return Blockage(first.reason, f"{first.message} (and {more} more Pods are held up)")


def _cure(seen: ClusterSnapshot, pod: Pod) -> str:
    if why := lost_because(seen, pod):
        kept = ", ".join(pod.metadata.finalizers)
        return f"{why}, and it is kept by the finalizers {kept}" if kept else why
    return (
        "if its Node is shut down for good, delete the Node or taint it"
        f" {OUT_OF_SERVICE}=nodeshutdown:NoExecute"
    )


def _pod_trouble(seen: ClusterSnapshot, pod: Pod) -> Blockage | None:
    if is_stuck(seen, pod):
        where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
        message = f"Pod {pod.metadata.name}{where} is being deleted but does not go away"
        return Blockage("StuckTerminating", f"{message}: {_cure(seen, pod)}")
    if is_terminating(pod) or is_ready(pod):
        return None
    return blockage(pod)
