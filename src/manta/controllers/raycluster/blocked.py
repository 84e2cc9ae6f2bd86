"""The condition `Blocked`: what keeps the Pods of a cluster from being ready.

In this order: the spec is invalid; an action was rejected (quota, webhook, a name that is taken); the
plan waits for an earlier object; the head is blocked; a worker is; a Pod takes too long to start. The message names
the first problem and counts the others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from manta.api.conditions import Blockage, find
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.names import without_suffixes
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.times import parse_time
from manta.controllers.raycluster.facts import (
    expiring_certificates,
    is_stuck,
    missing_account,
    missing_certificates,
    outdated_certificates,
)
from manta.controllers.raycluster.leftovers import REMAINS, stuck_because
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status_events import INVALID_REASONS, invalid_reason
from manta.reconcile.failures import blockage_of, is_routine
from manta.reconcile.outcome import Outcome
from manta.rules.pod_health import (
    POD_FAILED,
    blockage,
    is_ready,
    is_terminating,
    slow_readiness,
    slow_start,
)
from manta.rules.traits import Creator, creator
from manta.rules.validation.violation import violations_message

STABLE_AFTER: Final = timedelta(seconds=60)


def blocked_condition(
    snapshot: ClusterSnapshot,
    outcome: Outcome,
    *,
    pods_ready: bool,
    waits_for: Blockage | None = None,
) -> Condition | None:
    """None when nothing is wrong. The last known problem stays until all Pods are ready.

    `waits_for`: what the plan could not go on without.
    """
    if snapshot.violations:
        return _condition(
            Blockage(invalid_reason(snapshot.violations), violations_message(snapshot.violations))
        )
    known = find(snapshot.cluster.status.conditions, ClusterConditionType.BLOCKED)
    rejected = outcome.failure
    if rejected is not None and not is_routine(rejected):
        return same_failure(known, _condition(blockage_of(rejected)))
    problem = _obstacle(snapshot) or waits_for or _blocked_pods(snapshot)
    if problem is not None:
        return _condition(problem)
    if known is None or snapshot.cluster.spec.suspend:
        return None
    if known.reason in (*INVALID_REASONS, REMAINS):
        return None
    is_over = pods_ready and (known.reason != POD_FAILED or is_stable(snapshot))
    return None if is_over else known


def same_failure(known: Condition | None, wanted: Condition) -> Condition:
    """The known condition if the wanted one differs only in the name of a new Pod, which is another at each
    attempt: a write for each of them would be the next attempt, without a pause."""
    if known is None or (known.status, known.reason) != (wanted.status, wanted.reason):
        return wanted
    is_same = without_suffixes(known.message) == without_suffixes(wanted.message)
    return known if is_same else wanted


def is_stable(snapshot: ClusterSnapshot) -> bool:
    """All Pods have been ready for a minute. Before that they may fail again (C23)."""
    for pod in snapshot.pods:
        ready = find(pod.status.conditions, "Ready")
        since = ready.last_transition_time if ready else None
        if since and snapshot.now - parse_time(since) < STABLE_AFTER:
            return False
    return True


def _condition(problem: Blockage) -> Condition:
    return Condition(
        type=ClusterConditionType.BLOCKED,
        status="True",
        reason=problem.reason,
        message=problem.message,
    )


def _obstacle(snapshot: ClusterSnapshot) -> Blockage | None:
    account = missing_account(snapshot)
    if account:
        message = f"the head names ServiceAccount {account}, which does not exist: create it"
        return Blockage("AutoscalerServiceAccountNotFound", message)
    if why := missing_certificates(snapshot) or outdated_certificates(snapshot):
        return Blockage("MTLSCertsNotReady", why)
    if why := expiring_certificates(snapshot):
        return Blockage("MTLSCertificateExpiringSoon", why)
    return None


def _blocked_pods(snapshot: ClusterSnapshot) -> Blockage | None:
    problems: list[Blockage] = []
    late: list[Blockage] = []
    for pod in (*snapshot.head_pods, *snapshot.worker_pods):
        if problem := _pod_problem(snapshot, pod):
            problems.append(problem)
        elif slow := slow_start(pod, snapshot.now) or _slow_readiness(snapshot, pod):
            late.append(slow)
    found = problems + late  # a Pod that has failed says more than one that only takes long
    if not found:
        return None
    first, more = found[0], len(found) - 1
    if not more:
        return first
    return Blockage(first.reason, f"{first.message} (and {more} more Pods are blocked)")


def _slow_readiness(snapshot: ClusterSnapshot, pod: Pod) -> Blockage | None:
    """A worker that serves is ready only once a Serve replica runs on it, which may never be wanted."""
    serves = creator(snapshot.cluster.metadata) is Creator.SERVICE
    if serves and pod.metadata.labels.get(names.LABEL_NODE_TYPE) != names.NODE_HEAD:
        return None
    return slow_readiness(pod, snapshot.now)


def _pod_problem(snapshot: ClusterSnapshot, pod: Pod) -> Blockage | None:
    if is_stuck(snapshot, pod):
        where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
        message = f"Pod {pod.metadata.name}{where} is being deleted but does not go away"
        return Blockage("StuckTerminating", f"{message}: {stuck_because(snapshot, pod)}")
    if is_terminating(pod) or is_ready(pod):
        return None
    return blockage(pod)
