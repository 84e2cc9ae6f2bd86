"""The status of a RayCronJob: which tick was served last."""

from __future__ import annotations

from manta.api.times import format_time
from manta.controllers.raycronjob.events import Cause
from manta.controllers.raycronjob.snapshot import CronSnapshot, CronStatus
from manta.controllers.raycronjob.ticks import child_of, due_tick
from manta.reconcile.outcome import Outcome


def next_status(seen: CronSnapshot, outcome: Outcome) -> CronStatus:
    """A tick is recorded once its RayJob is known to exist; otherwise nothing changes."""
    if seen.violations or seen.cron.spec.suspend:
        return seen.cron.status
    tick = due_tick(seen)
    created = any(result.action.cause is Cause.TICK for result in outcome.done)
    if tick is None or not (created or child_of(seen, tick)):
        return seen.cron.status
    return CronStatus(last_schedule_time=format_time(tick))
