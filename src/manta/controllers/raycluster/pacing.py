"""When a status that differs is written: at once if it is news, a little later if it is progress.

Pods of one cluster become ready one after the other; a write for each would cost more than the
Pods themselves. Counting is therefore told when it has been going on for some seconds, and the end
of it at once: a cluster whose Pods start together is written twice, when begun and when ready.
A new cluster may take longer for that than one that is whole, on a busy server among a thousand.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from manta.api.conditions import find
from manta.api.ray.cluster import ClusterConditionType, RayClusterStatus
from manta.controllers.raycluster.conditions import BLOCKED
from manta.controllers.raycluster.planners.recreate import recreates
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import differs, is_whole
from manta.controllers.raycluster.warnings import warnings
from manta.rules.traits import Creator, creator

PROGRESS_WAITS: Final = timedelta(seconds=2)
FIRST_PROGRESS_WAITS: Final = timedelta(seconds=10)
"""Until a cluster has been whole for the first time."""

_ALWAYS_NEWS = (
    ClusterConditionType.PROVISIONED,
    ClusterConditionType.SUSPENDING,
    ClusterConditionType.SUSPENDED,
    ClusterConditionType.REPLICA_FAILURE,
    BLOCKED,
)


def write_in(
    seen: ClusterSnapshot, new: RayClusterStatus, noticed: datetime | None
) -> timedelta | None:
    """Zero: write now. None: nothing to write. Else: look again after this time.

    `noticed`: when progress that is not written yet was first seen.
    """
    old = seen.cluster.status
    if not differs(old, new):
        return timedelta(0) if warns_anew(seen) or _is_remembered(seen, new) else None
    if old.last_update_time is None or is_whole(seen) or _is_news(seen, old, new):
        return timedelta(0)
    was_whole = seen.condition(ClusterConditionType.PROVISIONED)
    waits = PROGRESS_WAITS if was_whole else FIRST_PROGRESS_WAITS
    return max((noticed or seen.now) + waits - seen.now, timedelta(0))


def _is_remembered(seen: ClusterSnapshot, new: RayClusterStatus) -> bool:
    """By the generation alone an edit is told from fields that a CRD hides (`seen.is_edited`), where
    the difference may cost something."""
    hosts = any(group.num_of_hosts > 1 for group in seen.cluster.spec.worker_group_specs)
    matters = recreates(seen) or hosts or bool(seen.network_policies)
    return matters and new.observed_generation != seen.cluster.status.observed_generation


def has_new_trouble(seen: ClusterSnapshot, new: RayClusterStatus) -> bool:
    """Whether warnings are to be told in this round: never twice for the same state (C33)."""
    before = find(seen.cluster.status.conditions, BLOCKED)
    after = find(new.conditions, BLOCKED)
    if after is not None and (before is None or before.message != after.message):
        return True
    return warns_anew(seen)


def warns_anew(seen: ClusterSnapshot) -> bool:
    """There is something to warn of that this generation has not been warned of: once it is told,
    the generation is written down as seen, and it is not told again."""
    meta, old = seen.cluster.metadata, seen.cluster.status
    return old.observed_generation != meta.generation and bool(warnings(seen))


def _is_news(seen: ClusterSnapshot, old: RayClusterStatus, new: RayClusterStatus) -> bool:
    if (old.state, old.desired_worker_replicas) != (new.state, new.desired_worker_replicas):
        return True
    if seen.submits_beside_head and old.head.pod_name != new.head.pod_name:
        return True  # it is remembered by this alone that there was a head
    news: tuple[str, ...] = _ALWAYS_NEWS
    is_awaited = creator(seen.cluster.metadata) is Creator.SERVICE
    if is_awaited or seen.condition(ClusterConditionType.PROVISIONED):
        # A RayService deploys its applications the moment that the head answers; and when the head
        # of a running cluster is lost, everybody wants to know.
        news = (*news, ClusterConditionType.HEAD_POD_READY)
    return any(_status(old, type_) != _status(new, type_) for type_ in news)


def _status(status: RayClusterStatus, type_: str) -> str:
    found = find(status.conditions, type_)
    return found.status if found else ""
