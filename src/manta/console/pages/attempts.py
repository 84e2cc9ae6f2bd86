"""The attempts of a RayJob as bars of a timeline. Pure.

The status has the times of the last attempt only. Those before it are known from the Events of their clusters, as
long as the API server keeps these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from manta.api.ages import age
from manta.api.times import parse_time
from manta.console.pages.parts import tone
from manta.console.plots import Span
from manta.console.snapshot import Item, Snapshot

MAX_ATTEMPTS: Final = 20
_CLUSTER: Final = re.compile(r"RayCluster (\S+?)(?::|$)")


def spans_of(snapshot: Snapshot, one: Item) -> list[Span]:
    """Since the job exists, each attempt, and what Ray says of the last one."""
    status, now = one.object.status, snapshot.now
    info = status.get("rayJobInfo") or {}
    end = _moment(status.get("endTime")) or now
    born = _moment(one.object.metadata.creation_timestamp)
    found = [_span("since created", born, end, "calm")]
    found += _attempts(snapshot, one, end)
    found.append(_in_ray(info, born, end, tone(one.state)))
    return [span for span in found if span is not None]


def _in_ray(
    info: Mapping[str, Any], born: datetime | None, end: datetime, look: str
) -> Span | None:
    """The head has a clock of its own: one that is wrong must not stretch the timeline to another day."""
    begin = _moment(info.get("startTime"))
    if begin is None or born is None:
        return None
    ray_end = min(_moment(info.get("endTime")) or end, end)
    return _span("in Ray", min(max(begin, born), end), ray_end, look)


def _attempts(snapshot: Snapshot, one: Item, end: datetime) -> Iterator[Span | None]:
    created = _clusters(snapshot, one, "CreatedRayCluster")
    deleted = _clusters(snapshot, one, "DeletedRayCluster")
    current = str(one.object.status.get("rayClusterName") or "")
    begun = sorted(
        ((at, name) for name, at in created.items() if name.rpartition("/")[2] != current)
    )[-MAX_ATTEMPTS:]
    started = _moment(one.object.status.get("startTime"))
    nexts = [*(at for at, _ in begun[1:]), started or end]
    last = max(_number(one), len(begun) + 1)
    for before, ((at, name), following) in enumerate(zip(begun, nexts, strict=False)):
        number = last - len(begun) + before
        yield _span(f"attempt {number}", at, deleted.get(name, following), "bad")
    yield _span(f"attempt {last}", started, end, tone(one.state))


def _number(one: Item) -> int:
    """Which attempt the status is about."""
    failed = int(one.object.status.get("failed") or 0)
    return failed if one.object.status.get("jobDeploymentStatus") == "Failed" else failed + 1


def _clusters(snapshot: Snapshot, one: Item, reason: str) -> Mapping[str, datetime]:
    """When each cluster of the job was created or deleted, by its name."""
    found: dict[str, datetime] = {}
    for event in snapshot.events_of(one.kind, one.key):
        named = _CLUSTER.search(event.message) if event.reason == reason else None
        at = _moment(event.metadata.creation_timestamp)
        about = event.involved_object.uid in ("", one.uid)  # not of an earlier job of this name
        if named is not None and at is not None and about:
            found[named[1]] = at
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
