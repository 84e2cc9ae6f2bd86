"""The condition Idle of a RayCluster: since when nobody uses it, or by what it is used, or why that is unknown."""

from __future__ import annotations

import msgspec

from manta.api.conditions import find, remove, set_condition
from manta.api.meta import Condition
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayClusterStatus
from manta.api.times import format_time
from manta.controllers.idlesuspend.facts import (
    current_answer,
    exemption,
    idle_record,
    is_suspended_by_us,
    is_watched,
)
from manta.controllers.idlesuspend.plan import suspended_message
from manta.controllers.idlesuspend.snapshot import IdleSnapshot
from manta.rules.idle import IdleLimit

IDLE = ClusterConditionType.IDLE


def next_status(snapshot: IdleSnapshot) -> RayClusterStatus:
    """The status with this condition. It changes only with its status or reason, so that a busy cluster whose
    actors come and go causes no writes."""
    status = snapshot.cluster.status
    wanted, known = _condition(snapshot), find(status.conditions, IDLE)
    if wanted is None:
        conditions = remove(status.conditions, IDLE) if _is_over(snapshot) else status.conditions
    elif known is not None and _same(known, wanted):
        conditions = status.conditions
    else:
        conditions = set_condition(status.conditions, wanted, snapshot.now)
    return msgspec.structs.replace(status, conditions=conditions)


def _same(known: Condition, wanted: Condition) -> bool:
    if (known.status, known.reason) != (wanted.status, wanted.reason):
        return False
    return wanted.status != "True" or known.message == wanted.message


def _is_over(snapshot: IdleSnapshot) -> bool:
    """Nothing is to be said: no limit any more, or suspended by somebody else."""
    return not is_watched(snapshot) and not is_suspended_by_us(snapshot)


def _condition(snapshot: IdleSnapshot) -> Condition | None:
    limit = snapshot.limit
    if snapshot.violation:
        return _unknown("InvalidIdleLimit", snapshot.violation)
    if limit is not None and (why := exemption(snapshot)):
        said = f"{names.ANNOTATION_IDLE_SUSPEND_AFTER} has no effect: {why}"
        return None if limit.is_default else _unknown("NeverSuspendedForIdleness", said)
    if limit is not None and is_suspended_by_us(snapshot):
        message = suspended_message(snapshot, limit)
        return Condition(type=IDLE, status="True", reason="IdleSuspended", message=message)
    if limit is None or not is_watched(snapshot):
        return None
    return _answered(snapshot, limit)


def _answered(snapshot: IdleSnapshot, limit: IdleLimit) -> Condition | None:
    answer, known = current_answer(snapshot), idle_record(snapshot)
    if not snapshot.head:
        return _unknown("HeadNotReady", "the head is not ready, so its use is not known")
    if answer is None:
        return None
    if answer.in_use:
        return Condition(type=IDLE, status="False", reason=answer.reason, message=answer.message)
    if not answer.is_known:
        return _unknown(answer.reason, answer.message)
    if known.since is None:
        return None
    end = max(known.since + limit.after, known.suspend_at or known.since)
    message = (
        f"nobody uses it since {format_time(known.since)}: suspended at {format_time(end)} "
        "unless it is used"
    )
    return Condition(type=IDLE, status="True", reason="NotInUse", message=message)


def _unknown(reason: str, message: str) -> Condition:
    return Condition(type=IDLE, status="Unknown", reason=reason, message=message)
