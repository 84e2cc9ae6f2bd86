"""The status after a round: what the stage says, unless something that it wanted done failed."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from manta.api.ray.job import JobFailedReason, RayJobStatus
from manta.controllers.rayjob.conditions import conditions
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.handover import SubmissionRefusedError
from manta.controllers.rayjob.plan import step
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.step import Step, fail
from manta.reconcile.outcome import Failure, Outcome
from manta.rules.pod_health import Blockage

SIDE_CAUSES = frozenset(
    (
        Cause.HEAD_SERVICE,
        Cause.HEAD_SERVICE_DRIFT,
        Cause.POD_GROUP_DRIFT,
        Cause.POD_GROUP_CLEANUP,
    )
)


def next_status(seen: JobSnapshot, outcome: Outcome) -> RayJobStatus:
    """A failed action keeps the stage; only a job that Ray itself refuses has failed for good."""
    answer = _after(seen, step(seen), outcome)
    status = answer.status
    return msgspec.structs.replace(
        status,
        observed_generation=seen.job.metadata.generation,
        conditions=conditions(seen, status, answer.held_up),
    )


def _after(seen: JobSnapshot, answer: Step, outcome: Outcome) -> Step:
    failed = [one for one in outcome.failures if one.action.cause not in SIDE_CAUSES]
    if not any(one.matters for one in failed) and not outcome.skipped:
        return answer
    status = answer.otherwise or seen.status
    if not failed:
        return replace(answer, status=status)
    error = failed[0].error
    if isinstance(error, SubmissionRefusedError):
        return fail(seen, JobFailedReason.SUBMISSION_FAILED, str(error))
    held_up = _refusal(failed[0])
    return replace(
        answer, status=msgspec.structs.replace(status, message=held_up.message), held_up=held_up
    )


def _refusal(failure: Failure) -> Blockage:
    reason = getattr(failure.error, "reason", "") or type(failure.error).__name__
    verb = type(failure.action).__name__.lower()
    return Blockage(reason, f"cannot {verb} {failure.action.key}: {failure.error}")
