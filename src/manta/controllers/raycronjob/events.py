"""Why a RayCronJob acts, and the Event that each cause leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from manta.controllers.raycronjob.snapshot import CronSnapshot
from manta.reconcile.events import EventTable, Reasons, Told
from manta.rules.validation.violation import sentence

CONTROLLER = "raycronjob-controller"


class Cause(StrEnum):
    TICK = "tick"
    HISTORY = "history"


REASONS: EventTable = {
    Cause.TICK: Reasons(
        action="Create",
        done="CreatedRayJob",
        failed="FailedToCreateRayJob",
        done_note="Created RayJob {key} for {why}",
        failed_note="Failed to create RayJob {key} for {why}: {error}",
    ),
    Cause.HISTORY: Reasons(
        action="Delete",
        done="DeletedRayJob",
        failed="FailedToDeleteRayJob",
        done_note="Deleted RayJob {key}: {why}",
        failed_note="Failed to delete RayJob {key}: {error}",
    ),
}


def notices(seen: CronSnapshot) -> Iterator[Told]:
    """What is worth telling although nothing was done."""
    if seen.cron.metadata.deletion_timestamp is not None:
        return
    if seen.violations:
        note = (
            f"The RayCronJob spec is invalid {seen.cron.metadata.key}: {sentence(seen.violations)}"
        )
        yield Told("Warning", "InvalidRayCronJobSpec", "Validate", note)
    elif seen.cron.spec.suspend:
        note = f"The RayCronJob {seen.cron.metadata.key} is suspended: no RayJob is created"
        yield Told("Normal", "SuspendedRayCronJob", "Suspend", note)
