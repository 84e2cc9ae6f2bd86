"""When to replace a failed Pod: at once the first time, then with growing back-off (C23).

There is no counter. The transition time of the condition `Blocked` is the start of the problem;
waiting as long as the problem has lasted doubles the pause with every failure. The condition is in the
API server, so a restart of the operator does not reset the back-off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.ray.cluster import ClusterConditionType
from manta.api.times import parse_time
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import beyond_repair, ended_at, is_terminating

MIN_PAUSE: Final = timedelta(seconds=10)
MAX_PAUSE: Final = timedelta(seconds=300)
LONG_LIFE: Final = MAX_PAUSE
"""A Pod that ran this long is replaced at once."""


@dataclass(frozen=True, slots=True)
class FailedPod:
    pod: Pod
    why: str


@dataclass(frozen=True, slots=True)
class FailedPods:
    """Failed Pods: those to replace now, and those to replace later."""

    due: tuple[FailedPod, ...] = ()
    waiting: tuple[FailedPod, ...] = ()
    next_due: timedelta | None = None


def failed_pods(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> FailedPods:
    due: list[FailedPod] = []
    waiting: list[FailedPod] = []
    soonest: timedelta | None = None
    for pod in pods:
        why = "" if is_terminating(pod) else beyond_repair(pod)
        if not why:
            continue
        left = _replace_at(snapshot, pod) - snapshot.now
        if left <= timedelta(0):
            due.append(FailedPod(pod, why))
        else:
            waiting.append(FailedPod(pod, why))
            soonest = min(soonest, left) if soonest else left
    return FailedPods(tuple(due), tuple(waiting), soonest)


def recreate_at(snapshot: ClusterSnapshot, replica: Sequence[Pod]) -> datetime:
    """When to delete a replica that never got all its hosts, and try again.

    At once, unless the cluster is blocked: then the API server would probably refuse a host again, and
    Pods would be created and deleted in a tight loop.
    """
    condition = find(snapshot.cluster.status.conditions, ClusterConditionType.BLOCKED)
    if condition is None or condition.status != "True":
        return snapshot.now
    since = parse_time(condition.last_transition_time)
    timestamps = [pod.metadata.creation_timestamp for pod in replica]
    created = max((parse_time(text) for text in timestamps if text), default=since)
    return created + _pause(created - since)


def _pause(duration: timedelta) -> timedelta:
    return min(max(duration, MIN_PAUSE), MAX_PAUSE)


def _replace_at(snapshot: ClusterSnapshot, pod: Pod) -> datetime:
    created = (
        parse_time(pod.metadata.creation_timestamp)
        if pod.metadata.creation_timestamp
        else snapshot.now
    )
    ended = ended_at(pod) or created
    if ended - created >= LONG_LIFE:
        return ended
    condition = find(snapshot.cluster.status.conditions, ClusterConditionType.BLOCKED)
    if condition is None or condition.status != "True":
        return ended
    since = parse_time(condition.last_transition_time)
    if created <= since:
        return ended  # this Pod started the problem
    return ended + _pause(ended - since)
