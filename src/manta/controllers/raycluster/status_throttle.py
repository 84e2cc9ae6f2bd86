"""When to write a changed status: important changes at once, progress a few seconds later.

Pods of one cluster become ready one after the other, and a write for each would cost more than the
Pods themselves. Counts are therefore written after some seconds, and at once when all Pods are ready:
a cluster whose Pods start together is written twice. A new cluster waits longer than one that was
ready before.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from manta.api.conditions import find, is_true
from manta.api.ray.cluster import ClusterConditionType, RayClusterStatus
from manta.controllers.raycluster.facts import all_pods_ready, recreates
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import differs
from manta.controllers.raycluster.status_events import has_new_warnings
from manta.rules.pod_health import is_terminating
from manta.rules.traits import Creator, creator

PROGRESS_DELAY: Final = timedelta(seconds=2)
FIRST_PROGRESS_DELAY: Final = timedelta(seconds=10)
"""Until all Pods have been ready for the first time."""

_FAILING: Final = ClusterConditionType.REPLICA_FAILURE
"""While an action fails its message may change at each attempt, and each write is followed by an attempt."""
_ALWAYS_IMPORTANT = (
    ClusterConditionType.PROVISIONED,
    ClusterConditionType.SUSPENDING,
    ClusterConditionType.SUSPENDED,
    ClusterConditionType.REPLICA_FAILURE,
    ClusterConditionType.BLOCKED,
    ClusterConditionType.ROLLING_UPDATE,
)


def status_delay(
    snapshot: ClusterSnapshot, new: RayClusterStatus, held_since: datetime | None
) -> timedelta | None:
    """Zero: write now. None: nothing to write. Otherwise the time to hold the status back.

    `held_since`: since when progress is held back.
    """
    old = snapshot.cluster.status
    if not differs(old, new):
        return (
            timedelta(0)
            if has_new_warnings(snapshot) or _records_generation(snapshot, new)
            else None
        )
    if not _bounds_written_by_others(snapshot, old, new) and (
        old.last_update_time is None
        or (all_pods_ready(snapshot) and not is_true(new.conditions, _FAILING))
        or _is_important(snapshot, old, new)
    ):
        return timedelta(0)
    was_ready = snapshot.condition(ClusterConditionType.PROVISIONED)
    delay = PROGRESS_DELAY if was_ready else FIRST_PROGRESS_DELAY
    return max((held_since or snapshot.now) + delay - snapshot.now, timedelta(0))


def _bounds_written_by_others(
    snapshot: ClusterSnapshot, old: RayClusterStatus, new: RayClusterStatus
) -> bool:
    """The bounds come from the spec alone, and it is the same as at our last write. They are put right,
    but not at once: two writers that disagree must not answer each other without a pause."""
    bounds = {name: getattr(new, name) for name in ("min_worker_replicas", "max_worker_replicas")}
    is_edited = old.observed_generation != snapshot.cluster.metadata.generation
    return not is_edited and not differs(msgspec.structs.replace(old, **bounds), new)


def _records_generation(snapshot: ClusterSnapshot, new: RayClusterStatus) -> bool:
    """Only the observed generation tells an edit from fields that an older CRD prunes
    (`snapshot.is_edited`). It is written where a confusion would delete something."""
    hosts = any(group.num_of_hosts > 1 for group in snapshot.cluster.spec.worker_group_specs)
    rolls = snapshot.rollout is not None
    matters = recreates(snapshot) or rolls or hosts or bool(snapshot.network_policies)
    return matters and new.observed_generation != snapshot.cluster.status.observed_generation


def _is_important(snapshot: ClusterSnapshot, old: RayClusterStatus, new: RayClusterStatus) -> bool:
    if (old.state, old.desired_worker_replicas) != (new.state, new.desired_worker_replicas):
        return True
    if snapshot.submits_beside_head and _head_record(old) != _head_record(new):
        return True  # only the name records that there was a head, and the address that it has run
    if _names_lost_head(snapshot, old, new):
        return True
    important: tuple[str, ...] = _ALWAYS_IMPORTANT
    is_awaited = creator(snapshot.cluster.metadata) is Creator.SERVICE
    if is_awaited or snapshot.condition(ClusterConditionType.PROVISIONED):
        # A RayService deploys its applications as soon as the head is ready, and the loss of the head
        # of a running cluster is important.
        important = (*important, ClusterConditionType.HEAD_POD_READY)
    return any(_status(old, type_) != _status(new, type_) for type_ in important)


def _head_record(status: RayClusterStatus) -> tuple[str, bool]:
    return status.head.pod_name, bool(status.head.pod_ip)


def _names_lost_head(
    snapshot: ClusterSnapshot, old: RayClusterStatus, new: RayClusterStatus
) -> bool:
    """Whether a head that goes, or is gone, is named only now: the name of the next one is derived from it."""
    name = new.head.pod_name
    is_lost = snapshot.head is None or is_terminating(snapshot.head)
    return is_lost and bool(name) and name != old.head.pod_name


def _status(status: RayClusterStatus, type_: str) -> str:
    found = find(status.conditions, type_)
    return found.status if found else ""
