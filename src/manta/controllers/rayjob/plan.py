"""Plans a RayJob: one function for each stage, and the objects beside it."""

from __future__ import annotations

from collections.abc import Callable

from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.ray.job import JobFailedReason
from manta.controllers.rayjob.gang import plan_gang
from manta.controllers.rayjob.head_service import plan_head_service
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.stages.finished import finalize, finish
from manta.controllers.rayjob.stages.initializing import initialize, wait_for_user
from manta.controllers.rayjob.stages.new import recover, start_attempt
from manta.controllers.rayjob.stages.release import retry, stay_suspended, suspend
from manta.controllers.rayjob.stages.running import run
from manta.controllers.rayjob.transitions import JobStep, move
from manta.reconcile.step import join
from manta.rules.validation.violation import violations_message

STAGES: dict[Stage, Callable[[JobSnapshot], JobStep]] = {
    Stage.NEW: start_attempt,
    Stage.INITIALIZING: initialize,
    Stage.WAITING: wait_for_user,
    Stage.RUNNING: run,
    Stage.SUSPENDING: suspend,
    Stage.SUSPENDED: stay_suspended,
    Stage.RETRYING: retry,
    Stage.COMPLETE: finish,
    Stage.FAILED: finish,
    Stage.VALIDATION_FAILED: recover,
}

NOT_VALIDATED = (Stage.SUSPENDING, Stage.RETRYING, Stage.COMPLETE, Stage.FAILED)
"""An edit that makes the spec invalid does not bring these stages back."""


def plan(snapshot: JobSnapshot) -> JobStep:
    return join((plan_head_service(snapshot), plan_gang(snapshot), stage_step(snapshot)))


def stage_step(snapshot: JobSnapshot) -> JobStep:
    if snapshot.job.metadata.deletion_timestamp is not None:
        return finalize(snapshot)
    if snapshot.violations and snapshot.stage not in NOT_VALIDATED:
        message, reason = violations_message(snapshot.violations), JobFailedReason.VALIDATION_FAILED
        return move(Stage.VALIDATION_FAILED, reason=reason, message=message)
    return STAGES[snapshot.stage](snapshot)
