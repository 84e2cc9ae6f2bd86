"""The status of a RayCronJob: which tick was served last, and why none is served."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from manta.api.conditions import remove, set_condition
from manta.api.meta import Condition
from manta.api.ray.cronjob import CronJobConditionType, RayCronJobStatus
from manta.api.times import format_time
from manta.controllers.raycronjob.events import INVALID_SPEC, Cause
from manta.controllers.raycronjob.snapshot import CronSnapshot
from manta.controllers.raycronjob.ticks import child_of, due_tick, last_served
from manta.reconcile.outcome import Outcome
from manta.rules.validation.violation import violations_message


def next_status(snapshot: CronSnapshot, outcome: Outcome) -> RayCronJobStatus:
    """A tick is recorded once its RayJob is known to exist."""
    status = msgspec.structs.replace(snapshot.cron.status, conditions=_conditions(snapshot))
    tick = max(_served(snapshot, outcome), default=None)
    if tick is None or tick <= last_served(snapshot):
        return status
    return msgspec.structs.replace(status, last_schedule_time=format_time(tick))


def _conditions(snapshot: CronSnapshot) -> tuple[Condition, ...]:
    """`Blocked` only while the spec is invalid, as a RayCluster has it."""
    known, blocked = snapshot.cron.status.conditions, CronJobConditionType.BLOCKED
    if not snapshot.violations:
        return remove(known, blocked)
    wanted = Condition(
        type=blocked,
        status="True",
        reason=INVALID_SPEC,
        message=violations_message(snapshot.violations),
        observed_generation=snapshot.cron.metadata.generation,
    )
    return set_condition(known, wanted, snapshot.now)


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
