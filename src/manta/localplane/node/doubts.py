"""When a plane starts: what is stored of Pods whose processes are gone is not believed.

A node that was switched off tells nobody. Whoever asks the plane after its start must not hear that Pods
of before are ready; the agent, which starts them again, comes later than the first question. Pods that
still run are left alone: the agent adopts them, and nothing flaps.
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
from manta.localplane.node import wire
from manta.localplane.node.attempts import LOST, LOST_CODE
from manta.localplane.node.podspec import NodePod, PodCondition
from manta.localplane.node.processes import is_running
from manta.localplane.node.status import CONTAINER_SCHEME, condition_fields

LOST_REASON = "ContainerStatusUnknown"
_READINESS = ("Ready", "ContainersReady", "PodReadyToStartContainers")


async def doubt_lost_pods(client: Client, directory: Path, now: datetime) -> int:
    """Mark the Pods of the node in `directory` whose sandbox is gone; how many there were."""
    lost = [
        pod
        for pod in (await client.list(PODS, into=NodePod)).items
        if claims_to_run(pod) and not _has_sandbox(directory / "pods" / pod.metadata.uid)
    ]
    for pod in lost:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": doubted_status(pod, now)}
        with suppress(NotFound, Conflict):  # deleted since it was listed
            await client.patch(PODS, pod.metadata.key, body, subresource="status")
    return len(lost)


def claims_to_run(pod: NodePod) -> bool:
    """Does its status say that a process of ours runs?"""
    known = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(_runs_here(status) for status in known)


def doubted_status(pod: NodePod, now: datetime) -> dict[str, Any]:
    """Pure: as a kubelet tells of containers that it cannot find any more."""
    status = pod.status
    told = {
        "conditions": [_doubted_condition(one, now) for one in status.conditions],
        "containerStatuses": _doubted(status.container_statuses, now),
        "initContainerStatuses": _doubted(status.init_container_statuses, now),
    }
    return {name: value for name, value in told.items() if value}


def _has_sandbox(directory: Path) -> bool:
    record = wire.read_record(directory / "sandbox.json")
    return record is not None and is_running(record)


def _runs_here(status: Mapping[str, Any]) -> bool:
    ours = str(status.get("containerID", "")).startswith(CONTAINER_SCHEME)
    return ours and "running" in (status.get("state") or {})


def _doubted(statuses: Sequence[Mapping[str, Any]], now: datetime) -> list[dict[str, Any]]:
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


def _doubted_condition(condition: PodCondition, now: datetime) -> dict[str, Any]:
    fields = condition_fields(condition)
    if condition.type not in _READINESS or condition.status != "True":
        return fields
    told = {"status": "False", "reason": "ContainersNotReady", "message": LOST}
    return {**fields, **told, "lastTransitionTime": format_time(now)}
