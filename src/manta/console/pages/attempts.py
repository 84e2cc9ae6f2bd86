"""The attempts of a RayJob as bars of a timeline. Pure.

The status has the times of the last attempt only. Those before it are known from the Events of their clusters, as
long as the API server keeps these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from manta.api.ages import age
from manta.api.times import parse_time
from manta.console.pages.parts import tone
from manta.console.plots import Span
from manta.console.snapshot import Item, Snapshot

MAX_ATTEMPTS: Final = 20
_CLUSTER: Final = re.compile(r"RayCluster (\S+?)(?::|$)")
_SUSPENDED: Final = ": the RayJob is suspended"
MAX_SKEW: Final = timedelta(minutes=1)
"""The most by which the clock of a head may differ."""


def spans_of(snapshot: Snapshot, one: Item) -> list[Span]:
    """Since the job exists, each attempt, and what Ray says of the last one."""
    life = _life(one, snapshot.now)
    found = [_span("since created", *life, "calm")] if life is not None else []
    found += _attempts(snapshot, one, _moment(one.object.status.get("endTime")) or snapshot.now)
    ray = _in_ray(one)
    if life is not None and ray is not None and _agree(life, ray):
        begin, end = (min(max(at or life[1], life[0]), life[1]) for at in ray)
        found.append(_span("in Ray", begin, end, tone(one.state)))
    return [span for span in found if span is not None]


def clock_note(one: Item, now: datetime) -> str:
    """That Ray's times are not drawn, because the clock of its head is another; empty if they are."""
    life, ray = _life(one, now), _in_ray(one)
    if life is None or ray is None or _agree(life, ray):
        return ""
    words = " to ".join(at.strftime("%Y-%m-%d %H:%M:%S") for at in ray if at is not None)
    return f"Ray says that it ran from {words} UTC, when there was no such job: the clock of its head is wrong."


def _life(one: Item, now: datetime) -> tuple[datetime, datetime] | None:
    born = _moment(one.object.metadata.creation_timestamp)
    return None if born is None else (born, _moment(one.object.status.get("endTime")) or now)


def _in_ray(one: Item) -> tuple[datetime, datetime | None] | None:
    """When the job began and ended by the clock of its head."""
    info: Mapping[str, Any] = one.object.status.get("rayJobInfo") or {}
    begin = _moment(info.get("startTime"))
    return None if begin is None else (begin, _moment(info.get("endTime")))


def _agree(life: tuple[datetime, datetime], ray: tuple[datetime, datetime | None]) -> bool:
    """Whether the clocks differ so little that it is cut off, instead of stretching the timeline."""
    begin, end = ray
    return life[0] - begin <= MAX_SKEW and (end or begin) - life[1] <= MAX_SKEW


def _attempts(snapshot: Snapshot, one: Item, end: datetime) -> Iterator[Span | None]:
    """Earlier attempts have failed, or were suspended: then the same attempt begins again later."""
    created = _clusters(snapshot, one, "CreatedRayCluster")
    deleted = _clusters(snapshot, one, "DeletedRayCluster")
    current = str(one.object.status.get("rayClusterName") or "")
    begun = sorted(
        (found.at, name) for name, found in created.items() if name.rpartition("/")[2] != current
    )[-MAX_ATTEMPTS:]
    started = _moment(one.object.status.get("startTime"))
    nexts = [*(at for at, _ in begun[1:]), started or end]
    number = max(_number(one), 1)
    ends = [name for _, name in begun if not (name in deleted and deleted[name].suspended)]
    failed = set(ends[1 - number :]) if number > 1 else set()
    spans = [_span(f"attempt {number}", started, end, tone(one.state))]
    for (at, name), following in reversed(list(zip(begun, nexts, strict=False))):
        number -= name in failed
        how = ", suspended" if name not in ends else "" if name in failed else ", ended"
        over = deleted[name].at if name in deleted else following
        spans.append(_span(f"attempt {number}{how}", at, over, "bad" if name in failed else "calm"))
    yield from reversed(spans)


def _number(one: Item) -> int:
    """Which attempt the status is about."""
    failed = int(one.object.status.get("failed") or 0)
    return failed if one.object.status.get("jobDeploymentStatus") == "Failed" else failed + 1


class _Found(NamedTuple):
    at: datetime
    suspended: bool
    """Whether it is said that it was because the RayJob was suspended."""


def _clusters(snapshot: Snapshot, one: Item, reason: str) -> Mapping[str, _Found]:
    """When each cluster of the job was created or deleted, by its name."""
    found: dict[str, _Found] = {}
    for event in snapshot.events_of(one.kind, one.key):
        named = _CLUSTER.search(event.message) if event.reason == reason else None
        at = _moment(event.metadata.creation_timestamp)
        about = event.involved_object.uid in ("", one.uid)  # not of an earlier job of this name
        if named is not None and at is not None and about:
            found[named[1]] = _Found(at, event.message.endswith(_SUSPENDED))
    return found


def _span(name: str, begin: datetime | None, end: datetime, look: str) -> Span | None:
    if begin is None:
        return None
    return Span(name, begin, max(begin, end), look, age(begin, max(begin, end)))


def _moment(text: str | None) -> datetime | None:
    try:
        return parse_time(text or "")
    except ValueError:
        return None
