"""The conditions of a RayJob: KubeRay has none, so these stand beside its fields and add the why.

Ready      Ray has the job, or has done it. False: reason and message say what is waited for.
Complete   it is over, and not as a failure
Failed     it is over, as a failure; the reason is `status.reason`
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from manta.api.conditions import set_condition
from manta.api.meta import Condition
from manta.api.ray.job import JobConditionType, JobDeploymentStatus, RayJobStatus
from manta.api.times import format_time, parse_time
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.waits import DASHBOARD_SILENT, suspended
from manta.rules.pod_health import Blockage

Stage = JobDeploymentStatus


def conditions(
    seen: JobSnapshot, new: RayJobStatus, held_up: Blockage | None
) -> tuple[Condition, ...]:
    stage = Stage(new.job_deployment_status)
    wanted = (
        (JobConditionType.READY, *_ready(seen, new, held_up)),
        (JobConditionType.COMPLETE, *_is(Stage.COMPLETE, stage, "", new.message)),
        (JobConditionType.FAILED, *_is(Stage.FAILED, stage, new.reason, new.message)),
    )
    found = seen.status.conditions
    for type_, status, reason, message in wanted:
        condition = Condition(type=type_, status=status, reason=reason, message=message)
        found = set_condition(found, condition, seen.now)
    return found


def _is(wanted: Stage, stage: Stage, reason: str, message: str) -> tuple[str, str, str]:
    if stage is wanted:
        return "True", reason or wanted, message
    return "False", stage or "New", ""


def _ready(seen: JobSnapshot, new: RayJobStatus, held_up: Blockage | None) -> tuple[str, str, str]:
    stage = Stage(new.job_deployment_status)
    match stage:
        case Stage.COMPLETE:
            return "True", stage, f"Ray says {new.job_status}"
        case Stage.FAILED | Stage.VALIDATION_FAILED | Stage.RETRYING:
            return "False", new.reason or stage, new.message
        case Stage.SUSPENDING | Stage.SUSPENDED:
            return "False", stage, suspended(seen)
        case Stage.RUNNING if new.job_status and held_up is None:
            return "True", stage, f"Ray says {new.job_status}"
        case _:
            pass
    if held_up is None:
        return "False", stage or "New", new.message or "waiting for the first reconcile"
    status = "Unknown" if held_up.reason == DASHBOARD_SILENT else "False"
    return status, held_up.reason, held_up.message + _until(seen, new)


def _until(seen: JobSnapshot, new: RayJobStatus) -> str:
    """When patience ends, if ever."""
    before_running = new.job_deployment_status in (Stage.INITIALIZING, Stage.WAITING)
    limits = {"activeDeadlineSeconds": seen.spec.active_deadline_seconds}
    if before_running:
        limits["preRunningDeadlineSeconds"] = seen.spec.pre_running_deadline_seconds
    set_ = {name: seconds for name, seconds in limits.items() if seconds is not None}
    if not set_ or not new.start_time:
        return ""
    name = min(set_, key=lambda one: set_[one])
    at = parse_time(new.start_time) + timedelta(seconds=set_[name])
    return f" (until {format_time(at)}, by {name})"


def differs(old: RayJobStatus, new: RayJobStatus) -> bool:
    """Is this status worth a write?

    The generation alone is not. Nor are conditions alone on a server that drops them, because the
    CRD there is KubeRay's: a status that has a stage and no conditions was written to such a one.
    """
    dropped = old.job_deployment_status and not old.conditions
    told = () if dropped else new.conditions
    plain = msgspec.structs.replace(
        new, observed_generation=old.observed_generation, conditions=told
    )
    return plain != old
