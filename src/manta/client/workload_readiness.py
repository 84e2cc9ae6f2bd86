"""Whether StatefulSets, DaemonSets, ReplicaSets and CronJobs are ready. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
NOT_OBSERVED = "waiting for the first reconcile of this generation"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an object is as its spec says, and if not, why."""

    ready: bool
    failed: bool = False
    why: str = ""
    word: str = "ready"
    """The word for a ready object of this kind."""


def is_observed(document: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the status is of the current generation. These kinds always report one."""
    generation = (document.get("metadata") or {}).get("generation", 1)
    return bool(status.get("observedGeneration", 0) >= generation)


def _stateful_set(spec: Json, status: Json) -> Verdict:
    """All replicas are ready, and those above the partition have the current template."""
    wanted = spec.get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    if ready < wanted or status.get("replicas", 0) > wanted:
        return Verdict(ready=False, why=f"{ready} of {wanted} Pods are ready")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Verdict(ready=True)
    due = max(0, wanted - ((strategy.get("rollingUpdate") or {}).get("partition") or 0))
    return _updated(status.get("updatedReplicas", 0), due)


def _daemon_set(spec: Json, status: Json) -> Verdict:
    """Every node that should have a Pod has a ready one of the current template."""
    wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    if ready < wanted:
        return Verdict(ready=False, why=f"Pods are ready on {ready} of {wanted} nodes")
    if (spec.get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
        return Verdict(ready=True)
    return _updated(status.get("updatedNumberScheduled", 0), wanted)


def _replica_set(spec: Json, status: Json) -> Verdict:
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    return Verdict(ready=ready >= wanted, why=f"{ready} of {wanted} Pods are ready")


def _cron_job(spec: Json, _status: Json) -> Verdict:
    """Ready as soon as it exists: its first run may be far away."""
    return Verdict(ready=True, word="suspended" if spec.get("suspend") else "scheduled")


def _updated(updated: int, due: int) -> Verdict:
    if updated < due:
        return Verdict(ready=False, why=f"{updated} of {due} Pods are of the new template")
    return Verdict(ready=True)


WORKLOADS: Mapping[str, Callable[[Json, Json], Verdict]] = {
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "ReplicaSet": _replica_set,
    "CronJob": _cron_job,
}


def judge_workload(kind: str, document: Json) -> Verdict:
    """Whether an object of one of `WORKLOADS` is ready. All but CronJobs report a generation."""
    status = document.get("status") or {}
    if kind != "CronJob" and not is_observed(document, status):
        return Verdict(ready=False, why=NOT_OBSERVED)
    return WORKLOADS[kind](document.get("spec") or {}, status)
