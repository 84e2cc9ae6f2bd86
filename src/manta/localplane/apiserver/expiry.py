"""Events are removed after an hour, as in kube-apiserver."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from manta.api.times import parse_time
from manta.localplane.apiserver.core import Core
from manta.localplane.store.objects import Record

TIME_TO_LIVE = timedelta(hours=1)
INTERVAL_SECONDS = 60.0
_RESOURCE = "events"


class _Times(msgspec.Struct, rename="camel", gc=False):
    last_timestamp: str | None = None
    event_time: str | None = None
    series: dict[str, object] | None = None
    metadata: dict[str, object] = {}


_read = msgspec.json.Decoder(_Times).decode


async def expire_events(core: Core) -> None:
    """Remove expired Events, until cancelled."""
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        remove_expired(core)


def remove_expired(core: Core) -> int:
    """Remove Events that did not occur again for an hour. Returns their number."""
    limit = core.now() - TIME_TO_LIVE
    expired = [record for record in core.store.select(_RESOURCE) if _last_seen(record) < limit]
    for record in expired:
        core.store.remove(_RESOURCE, record.key, record.decode())
    return len(expired)


def _last_seen(record: Record) -> datetime:
    event = _read(record.raw)
    series = event.series or {}
    times = [series.get("lastObservedTime"), event.last_timestamp, event.event_time]
    observed = [parse_time(str(time)) for time in times if time]
    return max([parse_time(str(event.metadata["creationTimestamp"])), *observed])
