"""The status after a reconcile: the step's change, unless an action of the stage failed."""

from __future__ import annotations

import msgspec

from manta.api.conditions import Blockage
from manta.api.ray.job import JobFailedReason, RayJobStatus
from manta.controllers.rayjob.conditions import conditions
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.submission import SubmissionRefusedError
from manta.controllers.rayjob.transitions import JobStep, fail, stage_failures
from manta.reconcile.failures import blockage_of
from manta.reconcile.outcome import UNTRIED, Outcome


def next_status(snapshot: JobSnapshot, step: JobStep, outcome: Outcome) -> RayJobStatus:
    """A failed action keeps the stage. Only a job that Ray refuses has failed for good."""
    status, blocked_by = _after(snapshot, step, outcome)
    return msgspec.structs.replace(
        status,
        observed_generation=snapshot.job.metadata.generation,
        conditions=conditions(snapshot, status, blocked_by),
    )


def _after(
    snapshot: JobSnapshot, step: JobStep, outcome: Outcome
) -> tuple[RayJobStatus, Blockage | None]:
    status = step.status_change(snapshot.status, outcome)
    failure = next((one for one in stage_failures(outcome) if one.matters), None)
    if failure is None:
        return status, step.blocked_by
    if isinstance(failure.error, SubmissionRefusedError):
        failed = fail(snapshot, JobFailedReason.SUBMISSION_FAILED, str(failure.error))
        return failed.status_change(snapshot.status, UNTRIED), None
    blocked_by = blockage_of(failure)
    return msgspec.structs.replace(status, message=blocked_by.message), blocked_by
