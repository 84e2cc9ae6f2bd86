"""Whether an object is ready, and if not, why. Pure.

Each kind defines ready by a condition, a state or a phase. The reason comes from the object's own
conditions or container statuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from manta.client.workload_readiness import NOT_OBSERVED, WORKLOADS, Verdict, judge_workload

READY_CONDITIONS = ("Ready", "RayClusterProvisioned", "Available", "Complete")
WANTED = ("HeadPodReady", *READY_CONDITIONS)
INVALID = "ValidationFailed"
"""Reason of the condition Ready of a RayService with an invalid spec."""
TROUBLES = ("Blocked", "ReplicaFailure")
"""Conditions that report a problem when they are True; their messages come first."""
_JOB_WAITS: Mapping[str, str] = {
    "": "waiting for the first reconcile",
    "Initializing": "waiting until its cluster is ready",
    "Waiting": "waiting for the id of a job that somebody submits",
    "Retrying": "waiting for the next attempt",
    "Suspending": "its cluster is being deleted",
}
"""What a RayJob waits for whose operator wrote no message, by `jobDeploymentStatus`."""

_RELEASING = ("Suspending", "Retrying")
"""Stages in which only the condition names what does not go away."""


def judge(kind: str, document: Mapping[str, Any]) -> Verdict:
    """Whether this object is ready. Kinds without a notion of readiness are always ready."""
    status = document.get("status") or {}
    if error := _reconcile_error(status):
        return Verdict(ready=False, why=error)
    match kind:
        case "RayJob":
            return _judge_job(status)
        case "RayCluster":
            return _judge_cluster(document, status)
        case "Pod":
            return _judge_pod(document)
        case "Deployment":
            return _judge_deployment(document, status)
        case "RayService":
            return _judge_service(document, status)
        case _ if kind in WORKLOADS:
            return judge_workload(kind, document)
        case _:
            return Verdict(ready=True)


def _reconcile_error(status: Mapping[str, Any]) -> str:
    """Why the operator's last reconcile of the object raised; empty: it did not."""
    conditions = status.get("conditions") or ()
    found = (one for one in conditions if one.get("type") == "ReconcileError")
    return next((one["message"] for one in found if one.get("status") == "True"), "")


def _judge_job(status: Mapping[str, Any]) -> Verdict:
    stage = status.get("jobDeploymentStatus", "")
    waits_for = _message_of(status, "Ready") if stage in _RELEASING else ""
    message = waits_for or status.get("message") or status.get("reason")
    message = message or _JOB_WAITS.get(stage, f"stage {stage}")
    if stage in ("Failed", "ValidationFailed"):
        return Verdict(ready=False, failed=True, why=message)
    return Verdict(ready=stage == "Complete", why=message)


def _message_of(status: Mapping[str, Any], type_: str) -> str:
    conditions = status.get("conditions") or ()
    return next((one.get("message", "") for one in conditions if one["type"] == type_), "")


def _judge_cluster(document: Mapping[str, Any], status: Mapping[str, Any]) -> Verdict:
    """`status.state` stays `ready` once it was; conditions and worker counts are current."""
    spec = document.get("spec") or {}
    wanted = "suspended" if spec.get("suspend") else "ready"
    if status.get("state") != wanted:
        return Verdict(ready=False, why=_blocking_message(status))
    if wanted == "suspended":
        return Verdict(ready=True)
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    if conditions.get("HeadPodReady") == "False":
        return Verdict(ready=False, why=_blocking_message(status))
    ready, workers = status.get("readyWorkerReplicas", 0), _wanted_workers(spec, status)
    if ready < workers:
        return Verdict(ready=False, why=f"{ready} of {workers} workers are ready")
    return Verdict(ready=True)


def _wanted_workers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """The expected number, from the current spec: the status may be older than the last edit."""
    from manta.api.ray.cluster import RayClusterSpec
    from manta.rules.scaling import desired_workers

    try:
        return desired_workers(msgspec.convert(spec, RayClusterSpec))
    except msgspec.ValidationError:  # a spec that this version cannot read
        return int(status.get("desiredWorkerReplicas", 0))


def _is_observed(document: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the status is of the current generation; a status without one counts as current."""
    generation = (document.get("metadata") or {}).get("generation", 0)
    return bool(status.get("observedGeneration", generation) >= generation)


def _judge_service(document: Mapping[str, Any], status: Mapping[str, Any]) -> Verdict:
    """An invalid spec stays so until somebody edits it."""
    verdict = _judge_conditions(status)
    invalid = any(
        one["type"] == "Ready" and one["status"] == "False" and one.get("reason") == INVALID
        for one in status.get("conditions") or ()
    )
    if invalid and _is_observed(document, status):
        return Verdict(ready=False, failed=True, why=verdict.why)
    return verdict


def _judge_conditions(status: Mapping[str, Any]) -> Verdict:
    for condition in status.get("conditions") or ():
        if condition["type"] in READY_CONDITIONS and condition["status"] == "True":
            return Verdict(ready=True)
    return Verdict(ready=False, why=_blocking_message(status))


def _judge_deployment(document: Mapping[str, Any], status: Mapping[str, Any]) -> Verdict:
    """Available, with all replicas of the current template."""
    if not _is_observed(document, status):
        return Verdict(ready=False, why=NOT_OBSERVED)
    wanted = document.get("spec", {}).get("replicas", 1)
    updated = status.get("updatedReplicas", 0)
    if updated < wanted:
        message = _blocking_message(status)
        return Verdict(
            ready=False, why=f"{updated} of {wanted} Pods are of the new template: {message}"
        )
    return _judge_conditions(status)


def _blocking_message(status: Mapping[str, Any]) -> str:
    conditions = status.get("conditions") or ()
    troubles = [one for one in conditions if one["type"] in TROUBLES and one["status"] == "True"]
    unmet = [one for one in conditions if one["type"] in WANTED and one["status"] != "True"]
    messages = [one.get("message") or one.get("reason", "") for one in (*troubles, *unmet)]
    return next(
        (text for text in messages if text),
        status.get("reason") or "waiting for the first reconcile",
    )


def _judge_pod(pod: Mapping[str, Any]) -> Verdict:
    status = pod.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True" or status.get("phase") == "Succeeded":
        return Verdict(ready=True, why=conditions.get("DnsUnavailable", {}).get("message", ""))
    return Verdict(ready=False, why=pod_waits_for(pod))


def pod_waits_for(pod: Mapping[str, Any]) -> str:
    """The most specific reason why a Pod is not ready, in one line."""
    status = pod.get("status") or {}
    statuses = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    for container in statuses:
        state = container.get("state") or {}
        if waiting := state.get("waiting"):
            detail = waiting.get("message") or waiting.get("reason", "")
            last = (container.get("lastState") or {}).get("terminated")
            after = f" (after {_termination(last)})" if last else ""
            return f"container {container['name']}: {detail}{after}"
        if (ended := state.get("terminated")) and ended.get("exitCode"):
            return f"container {container['name']}: {_termination(ended)}"
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or "no node found yet")
    running = [
        c["name"] for c in statuses if "running" in (c.get("state") or {}) and not c.get("ready")
    ]
    if running:
        return f"container {running[0]} runs, but its readiness probe has not passed yet"
    return f"phase {status.get('phase', 'Pending')}"


def _termination(ended: Mapping[str, Any]) -> str:
    words = f"{ended.get('reason', 'Error')}, exit code {ended.get('exitCode')}"
    return f"{words}: {ended['message']}" if ended.get("message") else words
