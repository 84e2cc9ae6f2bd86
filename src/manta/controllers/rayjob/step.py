"""What a stage answers: what to do now, and the status once it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.ray.job import (
    JobDeploymentStatus,
    JobFailedReason,
    JobStatus,
    RayJobInfo,
    RayJobStatus,
)
from manta.api.times import format_time
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.reconcile.plan import NOTHING, Plan, Wait
from manta.rules.pod_health import Blockage


@dataclass(frozen=True, slots=True)
class Step:
    plan: Plan
    status: RayJobStatus
    """The status when every action of the plan succeeded."""
    otherwise: RayJobStatus | None = None
    """The status when one failed; None keeps the old one."""
    held_up: Blockage | None = None
    """What is waited for, for the condition `Ready`; None: nothing but time."""


def nested_status(seen: JobSnapshot) -> dict[str, Any]:
    """The cluster's own status, shown inside the RayJob's (C28)."""
    return {"ray_cluster_status": seen.cluster.status} if seen.cluster else {}


def stay(seen: JobSnapshot, plan: Plan = NOTHING, **changes: Any) -> Step:
    """The same stage, with these fields of the status changed."""
    return Step(plan, msgspec.structs.replace(seen.status, **changes))


def wait(seen: JobSnapshot, held_up: Blockage, **changes: Any) -> Step:
    """The same stage: say what is waited for, and go on when something changes."""
    why = held_up.message
    changed = msgspec.structs.replace(seen.status, message=why, **changes)
    return Step(Plan(wait=Wait(why)), changed, held_up=held_up)


def move(
    seen: JobSnapshot, stage: JobDeploymentStatus, plan: Plan = NOTHING, **changes: Any
) -> Step:
    return stay(seen, plan, job_deployment_status=stage, **changes)


NOT_RETRIED = frozenset(
    (JobFailedReason.DEADLINE_EXCEEDED, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED)
)


def fail(
    seen: JobSnapshot, reason: JobFailedReason, message: str, plan: Plan = NOTHING, **changes: Any
) -> Step:
    """This attempt is over; another one follows while `backoffLimit` allows it."""
    failed = (seen.status.failed or 0) + 1
    retry = failed <= (seen.spec.backoff_limit or 0) and reason not in NOT_RETRIED
    stage = JobDeploymentStatus.RETRYING if retry else JobDeploymentStatus.FAILED
    ended = None if retry else format_time(seen.now)
    return move(
        seen, stage, plan, reason=reason, message=message, failed=failed, end_time=ended, **changes
    )


def complete(seen: JobSnapshot, job_status: str, message: str, **changes: Any) -> Step:
    succeeded = seen.status.succeeded or 0
    if job_status == JobStatus.SUCCEEDED:
        succeeded += 1
    return move(
        seen,
        JobDeploymentStatus.COMPLETE,
        job_status=job_status,
        message=message,
        succeeded=succeeded,
        end_time=format_time(seen.now),
        **changes,
    )


def forget_attempt(seen: JobSnapshot, stage: JobDeploymentStatus) -> RayJobStatus:
    """A clean status for the next attempt: nothing that names the last one is kept."""
    return msgspec.structs.replace(
        seen.status,
        job_deployment_status=stage,
        job_status=JobStatus.NEW,
        job_id="",
        ray_cluster_name="",
        dashboard_url="",
        reason="",
        message="",
        ray_job_info=RayJobInfo(),
        ray_cluster_status=type(seen.status.ray_cluster_status)(),
        start_time=None,
        end_time=None,
        job_status_check_failure_start_time=None,
    )
