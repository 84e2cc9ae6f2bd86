"""Plans one step at a time: note idleness, announce the suspension, suspend; or forget it.

Each is one patch that the API server accepts only for the version in the snapshot. So an edit by the user in
between wins, and a crash after any step continues with the next one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from manta.api.durations import format_nanoseconds
from manta.api.ray import names
from manta.api.ray.cluster import RayClusterStatus
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import format_time
from manta.controllers.idlesuspend.events import Cause
from manta.controllers.idlesuspend.facts import (
    FRESH,
    current_answer,
    decision_at,
    evidence_of,
    exemption,
    idle_record,
    interval,
    is_still_idle,
    is_suspended_by_us,
    is_watched,
    next_query_at,
)
from manta.controllers.idlesuspend.snapshot import Answer, IdleSnapshot
from manta.controllers.idlesuspend.usage import current_state, usage_annotation
from manta.reconcile.actions import Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.reconcile.step import Step, chain
from manta.rules.idle import IdleLimit
from manta.rules.usage import UseState

_MEMORY = (
    names.ANNOTATION_IDLE_SINCE,
    names.ANNOTATION_IDLE_EVIDENCE,
    names.ANNOTATION_IDLE_SUSPEND_AT,
)
_SECOND = timedelta(seconds=1)


def plan(snapshot: IdleSnapshot) -> Step[RayClusterStatus]:
    step: Step[RayClusterStatus] = chain(
        (plan_resumed, plan_unwatched, plan_use, plan_idleness), snapshot
    )
    return step if step.plan.actions else replace(step, plan=_with_usage(snapshot, step.plan))


def _with_usage(snapshot: IdleSnapshot, chosen: Plan) -> Plan:
    """Record a change of the usage that comes with no other change: resources, or a suspension by others."""
    is_over = snapshot.cluster.metadata.deletion_timestamp is not None
    if is_over or not usage_annotation(snapshot, current_state(snapshot)):
        return chosen
    return do(_patch(snapshot, {}, Cause.USAGE), wait=chosen.wait)


def plan_resumed(snapshot: IdleSnapshot) -> Plan:
    """Somebody resumed the cluster: remove our marks, so that the clock starts again."""
    if names.ANNOTATION_IDLE_SUSPENDED not in snapshot.annotations:
        return NOTHING
    if snapshot.cluster.spec.suspend:
        return Plan(wait=Wait("suspended because nobody used it"))
    marks = dict.fromkeys(names.IDLE_MARKS)
    return do(_patch(snapshot, marks, Cause.RESUMED), wait=Wait("it was resumed"))


def plan_unwatched(snapshot: IdleSnapshot) -> Plan:
    """Leave alone what has no limit, is suspended, is deleted, or is decided about by others."""
    if is_watched(snapshot):
        return NOTHING
    why = exemption(snapshot) or "it has no limit of idleness, or does not run"
    stale = idle_record(snapshot).anything and snapshot.cluster.metadata.deletion_timestamp is None
    if stale and not is_suspended_by_us(snapshot):
        return do(_patch(snapshot, dict.fromkeys(_MEMORY), Cause.FORGET), wait=Wait(why))
    return Plan(wait=Wait(why))


def plan_use(snapshot: IdleSnapshot) -> Plan:
    """Forget the idleness of a cluster that is used; wait while that is not known."""
    answer = current_answer(snapshot)
    if answer is None or not answer.is_known:
        why = answer.message if answer else "the head is not ready"
        return Plan(wait=Wait(why, _until_query(snapshot)))
    if not answer.in_use:
        return NOTHING
    wait = Wait(answer.message, _until_query(snapshot))
    if not idle_record(snapshot).anything:
        return Plan(wait=wait)
    announced = names.ANNOTATION_IDLE_SUSPEND_AT in snapshot.annotations
    cause = Cause.USED_AGAIN if announced else Cause.FORGET
    return do(_patch(snapshot, dict.fromkeys(_MEMORY), cause, answer.message), wait=wait)


def plan_idleness(snapshot: IdleSnapshot) -> Plan:
    """Note since when the cluster is idle; announce the suspension when that is due; then suspend."""
    answer, limit = current_answer(snapshot), snapshot.limit
    if answer is None or limit is None:
        return NOTHING
    if not is_still_idle(snapshot):
        return do(_note(snapshot, answer))
    decision, known = decision_at(snapshot, limit), idle_record(snapshot)
    is_fresh = snapshot.now - answer.at <= FRESH
    if decision is None or snapshot.now < decision or answer.at < decision or not is_fresh:
        return Plan(wait=Wait("the limit is not reached", _until_query(snapshot)))
    if known.suspend_at is None:
        return do(_announce(snapshot, limit))
    return do(_suspend(snapshot, limit))


def _note(snapshot: IdleSnapshot, answer: Answer) -> Patch:
    """Record since when the cluster is idle: from the next whole second, because use before the answer is no idleness."""
    since = answer.at + _SECOND if answer.at.microsecond else answer.at
    marks = {
        names.ANNOTATION_IDLE_SINCE: format_time(since),
        names.ANNOTATION_IDLE_EVIDENCE: evidence_of(answer),
        names.ANNOTATION_IDLE_SUSPEND_AT: None,
    }
    return _patch(snapshot, marks, Cause.IDLE)


def _announce(snapshot: IdleSnapshot, limit: IdleLimit) -> Patch:
    """The announced time leaves the whole time of the warning, even after a pause of the operator."""
    since = idle_record(snapshot).since or snapshot.now
    at = format_time(max(since + limit.after, snapshot.now + limit.warning))
    why = (
        f"idle since {format_time(since)}: it will be suspended at {at} unless it is used; "
        f"to keep it, set the annotation {names.ANNOTATION_IDLE_SUSPEND_AFTER} to 0"
    )
    return _patch(snapshot, {names.ANNOTATION_IDLE_SUSPEND_AT: at}, Cause.WARNING, why)


def _suspend(snapshot: IdleSnapshot, limit: IdleLimit) -> Patch:
    marks = {
        names.ANNOTATION_IDLE_SUSPENDED: format_time(snapshot.now),
        names.ANNOTATION_IDLE_SUSPEND_AT: None,
    }
    why = suspended_message(snapshot, limit)
    return _patch(snapshot, marks, Cause.SUSPEND, why, suspend=True)


def suspended_message(snapshot: IdleSnapshot, limit: IdleLimit) -> str:
    since = snapshot.annotations.get(names.ANNOTATION_IDLE_SINCE, "")
    after = format_nanoseconds(int(limit.after.total_seconds() * 1e9))
    name = snapshot.cluster.metadata.name
    return f"idle since {since}, suspended after {after}; resume: manta resume {name}"


def _patch(
    snapshot: IdleSnapshot,
    marks: dict[str, str | None],
    cause: Cause,
    why: str = "",
    *,
    suspend: bool = False,
) -> Patch:
    """With the usage annotation, so that it needs no write of its own."""
    meta = snapshot.cluster.metadata
    state = UseState.NONE if suspend else current_state(snapshot)
    body: dict[str, Any] = {
        "metadata": {"annotations": {**marks, **usage_annotation(snapshot, state)}},
        **({"spec": {"suspend": True}} if suspend else {}),
    }
    return Patch(
        RAY_CLUSTERS,
        meta.key,
        body,
        cause,
        why,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _until_query(snapshot: IdleSnapshot) -> timedelta | None:
    if snapshot.limit is None:
        return None
    if not snapshot.head:
        return interval(snapshot.limit)
    return max(next_query_at(snapshot, snapshot.limit) - snapshot.now, timedelta(0))
