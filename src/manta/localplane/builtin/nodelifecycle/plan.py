"""What becomes of a node and its Pods when its kubelet is silent. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from manta.api.resources import NODES, PODS
from manta.api.times import bounded_seconds, format_time, parse_time
from manta.api.well_known import TAINT_NOT_READY, TAINT_UNREACHABLE
from manta.localplane.builtin.nodelifecycle.snapshot import GRACE, QUARANTINE, NodeSnapshot
from manta.localplane.builtin.views import Node, Pod, Taint, Toleration, as_json
from manta.localplane.scheduler.placement import tolerates
from manta.reconcile.actions import Delete, Patch
from manta.reconcile.causes import ONLY_FAILURES, ActionCause, Reasons
from manta.reconcile.plan import NOTHING, Plan, Wait, do

_OURS = (TAINT_NOT_READY, TAINT_UNREACHABLE)
_KUBELET_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
"""Conditions that only a kubelet can know."""
_FINAL = ("Succeeded", "Failed")
_TAINTS = {"False": TAINT_NOT_READY, "Unknown": TAINT_UNREACHABLE}
"""The taint, by the status of the condition Ready."""


class Cause(ActionCause):
    SILENT = (
        Reasons("Update", "NodeNotReady", done_note="Node {key.name} status is now: NodeNotReady"),
        "the kubelet stopped posting node status",
    )
    TAINT = ONLY_FAILURES, "the readiness of the node changed"
    POD_NOT_READY = ONLY_FAILURES, "the node of the Pod is not ready"
    DISRUPTED = ONLY_FAILURES, "the Pod is about to be evicted"
    EVICT = ONLY_FAILURES, "the Pod does not tolerate a taint of its node any longer"
    ORPHANED = ONLY_FAILURES, "the Pod is about to be removed with its node"
    NODE_GONE = ONLY_FAILURES, "the node of the Pod is gone"


def plan(snapshot: NodeSnapshot) -> Plan:
    if snapshot.node is None:
        return _plan_gone(snapshot)
    silent = _plan_silence(snapshot, snapshot.node)
    if silent.actions:
        return silent
    steps = _plan_taints(snapshot, snapshot.node).then(_plan_pods(snapshot, snapshot.node))
    return _earliest(steps, _plan_evictions(snapshot, snapshot.node), silent)


def _earliest(*plans: Plan) -> Plan:
    """All actions, and the nearest of the waits."""
    joined = NOTHING
    for one in plans:
        joined = joined.then(one)
    waits = [one.wait for one in plans if one.wait and one.wait.retry_in is not None]
    soonest = min(waits, key=lambda wait: wait.retry_in or timedelta(0), default=None)
    return Plan(joined.stages, soonest, joined.notes)


# ── the node ─────────────────────────────────────────────────────────────────────────────
def _plan_silence(snapshot: NodeSnapshot, node: Node) -> Plan:
    """Ready becomes Unknown after the grace period, until the kubelet itself says otherwise."""
    ready = node.ready
    if ready is not None and ready.status == "Unknown":
        return NOTHING
    left = snapshot.last_heartbeat + GRACE - snapshot.now
    if left > timedelta(0):
        return Plan(wait=Wait(f"the next heartbeat of node {snapshot.name}", left))
    reason, message = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    if ready is None:
        reason, message = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
    stamp = format_time(snapshot.now)
    heartbeats = {one.type: one.last_heartbeat_time for one in node.status.conditions or ()}
    unknown = [
        {
            "type": type_,
            "status": "Unknown",
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": heartbeats.get(type_) or stamp,
            "lastTransitionTime": stamp,
        }
        for type_ in _KUBELET_CONDITIONS
    ]
    return do(_conditions(node, unknown))


def _conditions(node: Node, wanted: list[dict[str, Any]]) -> Patch:
    others = [one for one in node.status.conditions or () if one.type not in _KUBELET_CONDITIONS]
    return Patch(
        NODES,
        node.metadata.key,
        {"status": {"conditions": [*wanted, *as_json(others)]}},
        Cause.SILENT,
        subresource="status",
        uid=node.metadata.uid,
        resource_version=node.metadata.resource_version,
    )


def _plan_taints(snapshot: NodeSnapshot, node: Node) -> Plan:
    """A node that is not ready takes no Pods; NoExecute starts the time that Pods may stay."""
    key = _TAINTS.get(node.ready.status if node.ready else "True")
    present = node.spec.taints or ()
    wanted = [(key, "NoSchedule"), (key, "NoExecute")] if key else []
    kept = [one for one in present if one.key not in _OURS or (one.key, one.effect) in wanted]
    known = {(one.key, one.effect) for one in kept}
    stamp = format_time(snapshot.now)
    added = [
        Taint(key=name, effect=effect, time_added=stamp)
        for name, effect in wanted
        if name and (name, effect) not in known
    ]
    if len(kept) == len(present) and not added:
        return NOTHING
    return do(
        Patch(
            NODES,
            node.metadata.key,
            {"spec": {"taints": as_json([*kept, *added]) or None}},
            Cause.TAINT,
            uid=node.metadata.uid,
            resource_version=node.metadata.resource_version,
        )
    )


# ── its Pods ─────────────────────────────────────────────────────────────────────────────
def _plan_pods(snapshot: NodeSnapshot, node: Node) -> Plan:
    """The Pods of a silent node are marked as not ready: their kubelet cannot do it."""
    if node.ready is None or node.ready.status != "Unknown":
        return NOTHING
    not_ready = {"type": "Ready", "status": "False"}
    return do(
        *(
            _set_condition(pod, snapshot.now, not_ready, Cause.POD_NOT_READY)
            for pod in snapshot.pods
            if pod.is_ready
        ),
        independent=True,
    )


def _set_condition(pod: Pod, now: datetime, wanted: dict[str, Any], cause: Cause) -> Patch:
    """A condition of a Pod, in its old place or behind the others."""
    condition = {**wanted, "lastTransitionTime": format_time(now)}
    known: list[dict[str, Any]] = as_json(pod.status.conditions or ())
    if any(one["type"] == wanted["type"] for one in known):
        listed = [condition if one["type"] == wanted["type"] else one for one in known]
    else:
        listed = [*known, condition]
    return Patch(
        PODS,
        pod.metadata.key,
        {"status": {"conditions": listed}},
        cause,
        subresource="status",
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
    )


def _plan_evictions(snapshot: NodeSnapshot, node: Node) -> Plan:
    taints = [one for one in node.spec.taints or () if one.effect == "NoExecute"]
    due: list[Pod] = []
    waits: list[timedelta] = []
    for pod in snapshot.pods:
        if not pod.is_active:
            continue
        left = time_tolerated(pod.spec.tolerations or (), taints, snapshot.now)
        if left is not None and left <= timedelta(0):
            due.append(pod)
        elif left is not None:
            waits.append(left)
    marks = do(
        *(_set_condition(pod, snapshot.now, _disruption(pod), Cause.DISRUPTED) for pod in due),
        independent=True,
    )
    wait = Wait("Pods tolerate the taints for a while", min(waits)) if waits else None
    return marks.then(
        do(
            *(Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.EVICT) for pod in due),
            wait=wait,
        )
    )


def _disruption(pod: Pod) -> dict[str, Any]:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "observedGeneration": pod.metadata.generation,
    }


def time_tolerated(
    tolerations: Iterable[Toleration], taints: Iterable[Taint], now: datetime
) -> timedelta | None:
    """How long a Pod may still stay; None: for ever."""
    left: list[timedelta] = []
    for taint in taints:
        matching = [one for one in tolerations if tolerates(one, taint)]
        if not matching:
            return timedelta(0)
        limits = [one.toleration_seconds for one in matching]
        bounded = [max(0, limit) for limit in limits if limit is not None]
        if len(bounded) < len(limits):
            continue
        since = parse_time(taint.time_added) if taint.time_added else now
        left.append(since + bounded_seconds(min(bounded)) - now)
    return min(left, default=None)


def _plan_gone(snapshot: NodeSnapshot) -> Plan:
    """No kubelet will ever confirm the end of these Pods; if one still runs them, it ends them when their
    objects are gone."""
    if not snapshot.pods:
        return NOTHING
    left = snapshot.last_heartbeat + QUARANTINE - snapshot.now
    if left > timedelta(0):
        return Plan(wait=Wait(f"node {snapshot.name} may come back", left))
    active = [pod for pod in snapshot.pods if pod.status.phase not in _FINAL]
    marks = do(*(_fail_orphan(pod, snapshot.now) for pod in active), independent=True)
    return marks.then(
        do(
            *(
                Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.NODE_GONE, grace_seconds=0)
                for pod in snapshot.pods
            )
        )
    )


def _fail_orphan(pod: Pod, now: datetime) -> Patch:
    """The last status tells the owner of the Pod why it ended."""
    wanted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "observedGeneration": pod.metadata.generation,
    }
    patch = _set_condition(pod, now, wanted, Cause.ORPHANED)
    status = {**patch.patch["status"], "phase": "Failed"}
    return replace(patch, patch={"status": status}, resource_version=None)
