"""When a Pod that failed is replaced: at once the first time, then ever more slowly (C23).

No counter is kept. The condition `Blocked` remembers since when the cluster has been in trouble;
waiting once more as long as that doubles the pause with every failure, and because conditions
live in the API server, a restarted operator waits just as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.times import parse_time
from manta.controllers.raycluster.conditions import BLOCKED
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import beyond_repair, ended_at, is_terminating

SHORTEST: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(seconds=300)
LONG_LIFE: Final = LONGEST
"""A Pod that lived this long did not fail at once: its successor need not wait."""


@dataclass(frozen=True, slots=True)
class Failed:
    pod: Pod
    why: str


@dataclass(frozen=True, slots=True)
class Sick:
    """The Pods beyond repair, parted by whether their time has come."""

    due: tuple[Failed, ...] = ()
    waiting: tuple[Failed, ...] = ()
    next_due: timedelta | None = None


def sick_pods(seen: ClusterSnapshot, pods: Iterable[Pod]) -> Sick:
    due: list[Failed] = []
    waiting: list[Failed] = []
    soonest: timedelta | None = None
    for pod in pods:
        why = "" if is_terminating(pod) else beyond_repair(pod)
        if not why:
            continue
        left = _replace_at(seen, pod) - seen.now
        if left <= timedelta(0):
            due.append(Failed(pod, why))
        else:
            waiting.append(Failed(pod, why))
            soonest = min(soonest, left) if soonest else left
    return Sick(tuple(due), tuple(waiting), soonest)


def rebuilt_at(seen: ClusterSnapshot, replica: Sequence[Pod]) -> datetime:
    """When a replica that never got all its hosts makes way for another try.

    At once, unless the cluster is in trouble: whoever refused its last host would refuse it again,
    and the ones that were made are removed and made again as fast as the server answers.
    """
    trouble = find(seen.cluster.status.conditions, BLOCKED)
    if trouble is None or trouble.status != "True":
        return seen.now
    since = parse_time(trouble.last_transition_time)
    births = [pod.metadata.creation_timestamp for pod in replica]
    born = max((parse_time(birth) for birth in births if birth), default=since)
    return born + _pause(born - since)


def _pause(in_trouble: timedelta) -> timedelta:
    return min(max(in_trouble, SHORTEST), LONGEST)


def _replace_at(seen: ClusterSnapshot, pod: Pod) -> datetime:
    born = (
        parse_time(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else seen.now
    )
    ended = ended_at(pod) or born
    if ended - born >= LONG_LIFE:
        return ended
    trouble = find(seen.cluster.status.conditions, BLOCKED)
    if trouble is None or trouble.status != "True":
        return ended
    since = parse_time(trouble.last_transition_time)
    if born <= since:
        return ended  # it is the one that began the trouble
    return ended + _pause(ended - since)
