"""Facts about a snapshot that several phases share: what is recorded on the cluster, and when to query Ray again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.times import parse_optional_time
from manta.controllers.idlesuspend.snapshot import Answer, IdleSnapshot
from manta.rules.idle import IdleLimit
from manta.rules.traits import Creator, creator, has_dashboard, is_managed_elsewhere

SHORTEST_INTERVAL: Final = timedelta(seconds=1)
LONGEST_INTERVAL: Final = timedelta(minutes=5)
QUERIES_PER_LIMIT: Final = 25
"""A use that ends is noticed after at most 4 % of the limit."""
FRESH: Final = timedelta(seconds=10)
"""Only an answer that is not older may suspend a cluster."""


@dataclass(frozen=True, slots=True)
class IdleRecord:
    """What the annotations of the cluster record; invalid values count as missing."""

    since: datetime | None = None
    evidence: str = ""
    suspend_at: datetime | None = None

    @property
    def anything(self) -> bool:
        return bool(self.since or self.evidence or self.suspend_at)


def idle_record(snapshot: IdleSnapshot) -> IdleRecord:
    return IdleRecord(
        _time(snapshot, names.ANNOTATION_IDLE_SINCE),
        snapshot.annotations.get(names.ANNOTATION_IDLE_EVIDENCE, ""),
        _time(snapshot, names.ANNOTATION_IDLE_SUSPEND_AT),
    )


def _time(snapshot: IdleSnapshot, name: str) -> datetime | None:
    try:
        return parse_optional_time(snapshot.annotations.get(name))
    except ValueError:
        return None


def is_suspended_by_us(snapshot: IdleSnapshot) -> bool:
    marked = names.ANNOTATION_IDLE_SUSPENDED in snapshot.annotations
    return marked and bool(snapshot.cluster.spec.suspend)


def exemption(snapshot: IdleSnapshot) -> str:
    """Why a cluster with a limit is never suspended all the same; empty if it may be."""
    cluster = snapshot.cluster
    if is_managed_elsewhere(cluster.spec.managed_by):
        return "another operator manages it"
    if creator(cluster.metadata) is Creator.SERVICE:
        return "it belongs to a RayService"
    if _is_kueues(cluster):
        return "Kueue decides when it runs"
    if not has_dashboard(cluster.spec):
        return "it has no dashboard to ask (include-dashboard is false)"
    return ""


def _is_kueues(cluster: RayCluster) -> bool:
    """By any of Kueue's marks: it can also manage clusters without a queue label, and marks the Pods of those it admits."""
    pod = _mapping(cluster.spec.head_group_spec.template.get("metadata"))
    marks = (
        cluster.metadata.labels,
        cluster.metadata.annotations,
        _mapping(pod.get("labels")),
        _mapping(pod.get("annotations")),
    )
    return any(name.startswith(names.PREFIX_KUEUE) for one in marks for name in one)


def _mapping(value: Any) -> Mapping[str, Any]:
    """A Pod template is unchecked; that it is wrong is told by the RayCluster's own controller."""
    return value if isinstance(value, Mapping) else {}


def is_watched(snapshot: IdleSnapshot) -> bool:
    """Whether Ray is queried for this cluster at all."""
    deleted = snapshot.cluster.metadata.deletion_timestamp is not None
    limited = snapshot.limit is not None and not exemption(snapshot)
    return limited and not deleted and not snapshot.cluster.spec.suspend


def interval(limit: IdleLimit) -> timedelta:
    """The time between two queries."""
    return min(max(limit.after / QUERIES_PER_LIMIT, SHORTEST_INTERVAL), LONGEST_INTERVAL)


def current_answer(snapshot: IdleSnapshot) -> Answer | None:
    """The answer, if it is of the head that runs now."""
    answer = snapshot.answer
    return answer if answer is not None and answer.head == snapshot.head else None


def evidence_of(answer: Answer) -> str:
    return f"{answer.head}/{answer.evidence}"


def is_still_idle(snapshot: IdleSnapshot) -> bool:
    """Whether the cluster is not in use, and was not since the recorded time."""
    answer, known = current_answer(snapshot), idle_record(snapshot)
    return bool(
        answer and answer.evidence and known.since and known.evidence == evidence_of(answer)
    )


def decision_at(snapshot: IdleSnapshot, limit: IdleLimit) -> datetime | None:
    """When the suspension is announced, or executed; None while the cluster is not known to be idle."""
    known = idle_record(snapshot)
    if known.since is None or not is_still_idle(snapshot):
        return None
    end = known.since + limit.after
    return end - limit.warning if known.suspend_at is None else max(end, known.suspend_at)


def next_query_at(snapshot: IdleSnapshot, limit: IdleLimit) -> datetime:
    """When to query Ray next: at intervals, and at the time of each decision."""
    answer = current_answer(snapshot)
    if answer is None:
        return snapshot.now
    regular = answer.at + interval(limit)
    decision = decision_at(snapshot, limit)
    if decision is None:
        return regular
    return min(regular, decision if answer.at < decision else answer.at + FRESH)


def query_is_due(snapshot: IdleSnapshot) -> bool:
    if snapshot.limit is None or not is_watched(snapshot) or not snapshot.head:
        return False
    return snapshot.now >= next_query_at(snapshot, snapshot.limit)
