"""Why a RayCronJob acts, and the Event that each cause leaves behind."""

from __future__ import annotations

from collections.abc import Iterator

from manta.controllers.raycronjob.snapshot import CronSnapshot
from manta.reconcile.causes import ActionCause, Reasons
from manta.reconcile.events import Event
from manta.rules.validation.violation import violations_message

CONTROLLER = "raycronjob-controller"
INVALID_SPEC = "InvalidRayCronJobSpec"
"""The reason of the Event and of the condition."""


class Cause(ActionCause):
    TICK = Reasons(
        action="Create",
        done="CreatedRayJob",
        failed="FailedToCreateRayJob",
        done_note="Created RayJob {key} for {why}",
        failed_note="Failed to create RayJob {key} for {why}: {error}",
    )
    HISTORY = Reasons(
        action="Delete",
        done="DeletedRayJob",
        failed="FailedToDeleteRayJob",
        done_note="Deleted RayJob {key}: {why}",
        failed_note="Failed to delete RayJob {key}: {error}",
    )


def status_events(snapshot: CronSnapshot) -> Iterator[Event]:
    """Why the RayCronJob creates no RayJobs."""
    if snapshot.cron.metadata.deletion_timestamp is not None:
        return
    if snapshot.violations:
        note = f"The RayCronJob spec is invalid {snapshot.cron.metadata.key}: {violations_message(snapshot.violations)}"
        yield Event("Warning", INVALID_SPEC, "Validate", note)
    elif snapshot.cron.spec.suspend:
        note = f"The RayCronJob {snapshot.cron.metadata.key} is suspended: no RayJob is created"
        yield Event("Normal", "SuspendedRayCronJob", "Suspend", note)
