"""The status of a RayCronJob: which tick was served last, and why none is served."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from manta.api.conditions import Blockage, remove, set_condition
from manta.api.meta import Condition
from manta.api.ray.cronjob import CronJobConditionType, RayCronJobStatus
from manta.api.times import format_time
from manta.controllers.raycronjob.events import INVALID_SPEC, Cause
from manta.controllers.raycronjob.snapshot import CronSnapshot
from manta.controllers.raycronjob.ticks import child_of, due_tick, last_served
from manta.reconcile.failures import blockage_of, is_routine
from manta.reconcile.outcome import Outcome
from manta.rules.validation.violation import violations_message


def next_status(snapshot: CronSnapshot, outcome: Outcome) -> RayCronJobStatus:
    """A tick is recorded once its RayJob is known to exist."""
    conditions = _conditions(snapshot, outcome)
    status = msgspec.structs.replace(snapshot.cron.status, conditions=conditions)
    tick = max(_served(snapshot, outcome), default=None)
    if tick is None or tick <= last_served(snapshot):
        return status
    return msgspec.structs.replace(status, last_schedule_time=format_time(tick))


def _conditions(snapshot: CronSnapshot, outcome: Outcome) -> tuple[Condition, ...]:
    """`Blocked` only while the spec is invalid or the RayJob of a tick is refused."""
    known, type_ = snapshot.cron.status.conditions, CronJobConditionType.BLOCKED
    blocked_by = _blocked_by(snapshot, outcome)
    if blocked_by is None:
        return remove(known, type_)
    wanted = Condition(
        type=type_,
        status="True",
        reason=blocked_by.reason,
        message=blocked_by.message,
        observed_generation=snapshot.cron.metadata.generation,
    )
    return set_condition(known, wanted, snapshot.now)


def _blocked_by(snapshot: CronSnapshot, outcome: Outcome) -> Blockage | None:
    if snapshot.violations:
        return Blockage(INVALID_SPEC, violations_message(snapshot.violations))
    failed = (one for one in outcome.failures if one.action.cause is Cause.TICK)
    refused = next((one for one in failed if not is_routine(one)), None)
    return blockage_of(refused) if refused is not None else None


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
