"""Marks Pods as not ready whose processes ended while the plane was down.

It runs when a plane starts, before clients can read stored statuses that are no longer true; the node agent
restarts the Pods later. Pods that still run are left alone: the agent adopts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from manta.api.resources import PODS
from manta.api.times import format_time
from manta.kube.client import Client
from manta.kube.errors import Conflict, NotFound
from manta.localplane.node.host import wire
from manta.localplane.node.pod.attempts import LOST, LOST_CODE
from manta.localplane.node.pod.conditions import condition_fields
from manta.localplane.node.pod.status import CONTAINER_SCHEME
from manta.localplane.node.sandbox.sandbox import is_running
from manta.localplane.node.spec.pod_spec import NodePod, PodCondition

LOST_REASON = "ContainerStatusUnknown"
_READINESS = ("Ready", "ContainersReady", "PodReadyToStartContainers")


async def mark_lost_pods(client: Client, directory: Path, now: datetime) -> int:
    """Mark the Pods of the node in `directory` whose sandbox has ended. Returns their number."""
    lost = [
        pod
        for pod in (await client.list(PODS, into=NodePod)).items
        if reports_running(pod) and not _has_sandbox(directory / "pods" / pod.metadata.uid)
    ]
    for pod in lost:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": lost_status(pod, now)}
        with suppress(NotFound, Conflict):  # deleted since it was listed
            await client.patch(PODS, pod.metadata.key, body, subresource="status")
    return len(lost)


def reports_running(pod: NodePod) -> bool:
    """Whether the Pod's status shows a running container of this node agent."""
    known = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(_runs_here(status) for status in known)


def lost_status(pod: NodePod, now: datetime) -> dict[str, Any]:
    """The status that a kubelet gives to containers that it cannot find. Pure."""
    status = pod.status
    changed = {
        "conditions": [_lost_condition(one, now) for one in status.conditions],
        "containerStatuses": _mark_lost(status.container_statuses, now),
        "initContainerStatuses": _mark_lost(status.init_container_statuses, now),
    }
    return {name: value for name, value in changed.items() if value}


def _has_sandbox(directory: Path) -> bool:
    record = wire.read_record(directory / "sandbox.json")
    return record is not None and is_running(record)


def _runs_here(status: Mapping[str, Any]) -> bool:
    ours = str(status.get("containerID", "")).startswith(CONTAINER_SCHEME)
    return ours and "running" in (status.get("state") or {})


def _mark_lost(statuses: Sequence[Mapping[str, Any]], now: datetime) -> list[dict[str, Any]]:
    return [_lost(one, now) if _runs_here(one) else dict(one) for one in statuses]


def _lost(status: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    ended = {
        "exitCode": LOST_CODE,
        "reason": LOST_REASON,
        "message": LOST,
        "startedAt": status["state"]["running"].get("startedAt"),
        "finishedAt": format_time(now),
        "containerID": status["containerID"],
    }
    return {**status, "state": {"terminated": ended}, "ready": False, "started": False}


def _lost_condition(condition: PodCondition, now: datetime) -> dict[str, Any]:
    fields = condition_fields(condition)
    if condition.type not in _READINESS or condition.status != "True":
        return fields
    changed = {"status": "False", "reason": "ContainersNotReady", "message": LOST}
    return {**fields, **changed, "lastTransitionTime": format_time(now)}
