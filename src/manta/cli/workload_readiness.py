"""Whether StatefulSets, DaemonSets, ReplicaSets and CronJobs are what their author wanted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

NOT_OBSERVED = "waiting for the first reconcile of this generation"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is an object what its author wanted, and if not, why not?"""

    ready: bool
    failed: bool = False
    why: str = ""
    word: str = "ready"
    """What a ready object of this kind is called."""


def is_observed(document: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Is the status about the object as it is now? These kinds always say which generation it is of."""
    generation = (document.get("metadata") or {}).get("generation", 1)
    return bool(status.get("observedGeneration", 0) >= generation)


def judge_stateful_set(document: Mapping[str, Any]) -> Verdict:
    """All replicas ready, and those above the partition of the present template."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if not is_observed(document, status):
        return Verdict(ready=False, why=NOT_OBSERVED)
    wanted = spec.get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    if ready < wanted or status.get("replicas", 0) > wanted:
        return Verdict(ready=False, why=f"{ready} of {wanted} Pods are ready")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Verdict(ready=True)
    due = max(0, wanted - ((strategy.get("rollingUpdate") or {}).get("partition") or 0))
    return _updated(status.get("updatedReplicas", 0), due)


def judge_daemon_set(document: Mapping[str, Any]) -> Verdict:
    """A Pod that is ready, and of the present template, on every node that should have one."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if not is_observed(document, status):
        return Verdict(ready=False, why=NOT_OBSERVED)
    wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    if ready < wanted:
        return Verdict(ready=False, why=f"Pods are ready on {ready} of {wanted} nodes")
    if (spec.get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
        return Verdict(ready=True)
    return _updated(status.get("updatedNumberScheduled", 0), wanted)


def judge_replica_set(document: Mapping[str, Any]) -> Verdict:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if not is_observed(document, status):
        return Verdict(ready=False, why=NOT_OBSERVED)
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    return Verdict(ready=ready >= wanted, why=f"{ready} of {wanted} Pods are ready")


def judge_cron_job(document: Mapping[str, Any]) -> Verdict:
    """Accepted is all that can be waited for: its first time may be far away."""
    suspended = (document.get("spec") or {}).get("suspend")
    return Verdict(ready=True, word="suspended" if suspended else "scheduled")


def _updated(updated: int, due: int) -> Verdict:
    if updated < due:
        return Verdict(ready=False, why=f"{updated} of {due} Pods are of the new template")
    return Verdict(ready=True)


WORKLOADS: Mapping[str, Callable[[Mapping[str, Any]], Verdict]] = {
    "StatefulSet": judge_stateful_set,
    "DaemonSet": judge_daemon_set,
    "ReplicaSet": judge_replica_set,
    "CronJob": judge_cron_job,
}
