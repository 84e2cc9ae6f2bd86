"""The status of a RayCronJob: which tick was served last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from manta.api.ray.cronjob import RayCronJobStatus
from manta.api.times import format_time
from manta.controllers.raycronjob.events import Cause
from manta.controllers.raycronjob.snapshot import CronSnapshot
from manta.controllers.raycronjob.ticks import child_of, due_tick, last_served
from manta.reconcile.outcome import Outcome


def next_status(snapshot: CronSnapshot, outcome: Outcome) -> RayCronJobStatus:
    """A tick is recorded once its RayJob is known to exist; otherwise nothing changes."""
    tick = max(_served(snapshot, outcome), default=None)
    if tick is None or tick <= last_served(snapshot):
        return snapshot.cron.status
    return msgspec.structs.replace(snapshot.cron.status, last_schedule_time=format_time(tick))


def _served(snapshot: CronSnapshot, outcome: Outcome) -> Iterator[datetime]:
    """The ticks whose RayJob exists, also if the RayCronJob was suspended or became invalid before
    the status recorded it."""
    for child in snapshot.children:
        if child.tick and child.tick <= snapshot.now and child_of(snapshot, child.tick) is child:
            yield child.tick
    if snapshot.violations or snapshot.cron.spec.suspend:
        return
    tick = due_tick(snapshot)
    created = any(result.action.cause is Cause.TICK for result in outcome.done)
    if tick is not None and (created or child_of(snapshot, tick)):
        yield tick
