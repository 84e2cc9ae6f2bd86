"""The conditions of a RayJob. KubeRay has none: these add the reason to its fields.

Ready      Ray has the job, or has finished it. False: reason and message say what it waits for.
Complete   it ended without failure
Failed     it failed; the reason is `status.reason`
"""

from __future__ import annotations

import msgspec

from manta.api.conditions import Blockage, set_condition
from manta.api.meta import Condition
from manta.api.ray.job import JobConditionType, JobDeploymentStatus, RayJobStatus
from manta.api.times import format_time
from manta.controllers.rayjob.facts import deadlines
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.wait_reasons import DASHBOARD_SILENT, suspended

Stage = JobDeploymentStatus


def conditions(
    snapshot: JobSnapshot, new: RayJobStatus, blocked_by: Blockage | None
) -> tuple[Condition, ...]:
    stage = Stage(new.job_deployment_status)
    wanted = (
        (JobConditionType.READY, *_ready(snapshot, new, blocked_by)),
        (JobConditionType.COMPLETE, *_is(Stage.COMPLETE, stage, "", new.message)),
        (JobConditionType.FAILED, *_is(Stage.FAILED, stage, new.reason, new.message)),
    )
    found = snapshot.status.conditions
    for type_, status, reason, message in wanted:
        condition = Condition(type=type_, status=status, reason=reason, message=message)
        found = set_condition(found, condition, snapshot.now)
    return found


def _is(wanted: Stage, stage: Stage, reason: str, message: str) -> tuple[str, str, str]:
    if stage is wanted:
        return "True", reason or wanted, message
    return "False", stage or "New", ""


def _ready(
    snapshot: JobSnapshot, new: RayJobStatus, blocked_by: Blockage | None
) -> tuple[str, str, str]:
    stage = Stage(new.job_deployment_status)
    match stage:
        case Stage.COMPLETE:
            return "True", stage, f"Ray reports {new.job_status}"
        case Stage.FAILED | Stage.VALIDATION_FAILED:
            return "False", new.reason or stage, new.message
        case Stage.RETRYING:
            return "False", new.reason or stage, _and_waits(new.message, blocked_by)
        case Stage.SUSPENDING | Stage.SUSPENDED:
            return "False", stage, _and_waits(suspended(snapshot), blocked_by)
        case Stage.RUNNING if new.job_status and blocked_by is None:
            return "True", stage, f"Ray reports {new.job_status}"
        case _:
            pass
    if blocked_by is None:
        return "False", stage or "New", new.message or "waiting for the first reconcile"
    status = "Unknown" if blocked_by.reason == DASHBOARD_SILENT else "False"
    return status, blocked_by.reason, blocked_by.message + _until(snapshot, new)


def _and_waits(why: str, blocked_by: Blockage | None) -> str:
    if blocked_by is None or blocked_by.message == why:
        return why
    return f"{why}; {blocked_by.message}"


def _until(snapshot: JobSnapshot, new: RayJobStatus) -> str:
    """The next deadline, if there is one."""
    ends = deadlines(snapshot.spec, new)
    if not ends:
        return ""
    name = min(ends, key=lambda one: ends[one])
    return f" (until {format_time(ends[name])}, by {name})"


def is_worth_writing(old: RayJobStatus, new: RayJobStatus) -> bool:
    """Whether more than the generation changed.

    KubeRay's CRD drops conditions. A stored status with a stage and no conditions shows that the
    server uses it: then a change of conditions alone is not written.
    """
    dropped = old.job_deployment_status and not old.conditions
    found = () if dropped else new.conditions
    comparable = msgspec.structs.replace(
        new, observed_generation=old.observed_generation, conditions=found
    )
    return comparable != old
