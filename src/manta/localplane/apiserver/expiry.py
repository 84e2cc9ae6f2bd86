"""Events are kept for an hour: nothing else in a plane grows while nobody looks."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from manta.api.times import parse_time
from manta.localplane.apiserver.core import Core
from manta.localplane.store.objects import Record

LIFE = timedelta(hours=1)
PAUSE_SECONDS = 60.0
_SHELF = "events"


class _Times(msgspec.Struct, rename="camel", gc=False):
    last_timestamp: str | None = None
    event_time: str | None = None
    series: dict[str, object] | None = None
    metadata: dict[str, object] = {}


_read = msgspec.json.Decoder(_Times).decode


async def expire_events(core: Core) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        remove_expired(core)


def remove_expired(core: Core) -> int:
    """Remove what has not been told again for an hour; returns how many went."""
    limit = core.now() - LIFE
    gone = [record for record in core.store.select(_SHELF) if _last_told(record) < limit]
    for record in gone:
        core.store.remove(_SHELF, record.key, record.decode())
    return len(gone)


def _last_told(record: Record) -> datetime:
    event = _read(record.raw)
    series = event.series or {}
    times = [series.get("lastObservedTime"), event.last_timestamp, event.event_time]
    told = [parse_time(str(time)) for time in times if time]
    return max([parse_time(str(event.metadata["creationTimestamp"])), *told])
