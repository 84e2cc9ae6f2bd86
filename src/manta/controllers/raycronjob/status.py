"""The status of a RayCronJob: which tick was served last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from manta.api.times import format_time
from manta.controllers.raycronjob.events import Cause
from manta.controllers.raycronjob.snapshot import CronSnapshot, CronStatus
from manta.controllers.raycronjob.ticks import child_of, due_tick, last_served
from manta.reconcile.outcome import Outcome


def next_status(seen: CronSnapshot, outcome: Outcome) -> CronStatus:
    """A tick is recorded once its RayJob is known to exist; otherwise nothing changes."""
    tick = max(_served(seen, outcome), default=None)
    if tick is None or tick <= last_served(seen):
        return seen.cron.status
    return msgspec.structs.replace(seen.cron.status, last_schedule_time=format_time(tick))


def _served(seen: CronSnapshot, outcome: Outcome) -> Iterator[datetime]:
    """Also of a RayCronJob that was suspended, or edited to something invalid, after its RayJob was
    made and before that could be recorded."""
    for child in seen.children:
        if child.tick and child.tick <= seen.now and child_of(seen, child.tick) is child:
            yield child.tick
    if seen.violations or seen.cron.spec.suspend:
        return
    tick = due_tick(seen)
    created = any(result.action.cause is Cause.TICK for result in outcome.done)
    if tick is not None and (created or child_of(seen, tick)):
        yield tick
