"""Steps that keep or change the stage of a RayJob (`status.jobDeploymentStatus`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from manta.api.conditions import Blockage
from manta.api.ray.cluster import RayClusterStatus
from manta.api.ray.job import (
    JobDeploymentStatus,
    JobFailedReason,
    JobStatus,
    RayJobInfo,
    RayJobStatus,
)
from manta.api.times import format_time, parse_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.facts import ACTIVE, deadlines
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.reconcile.plan import NOTHING, Plan, Wait
from manta.reconcile.step import Step, earliest

JobStep = Step[RayJobStatus]

SHORTEST_TIMER = timedelta(milliseconds=100)
NOT_RETRIED = frozenset(
    (JobFailedReason.DEADLINE_EXCEEDED, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED)
)
SIDE_CAUSES = frozenset(
    (Cause.HEAD_SERVICE, Cause.HEAD_SERVICE_DRIFT, Cause.POD_GROUP_DRIFT, Cause.POD_GROUP_CLEANUP)
)
"""Actions beside the stage: when one fails, the stage goes on."""


def stage_failures(outcome: Outcome) -> list[Failure]:
    return [one for one in outcome.failures if one.action.cause not in SIDE_CAUSES]


def has_failed(outcome: Outcome) -> bool:
    """Whether an action of the stage failed, best-effort calls apart, or was not tried."""
    return bool(outcome.skipped) or any(one.matters for one in stage_failures(outcome))


def stay(
    plan: Plan = NOTHING, *, on_failure: Mapping[str, Any] | None = None, **changes: Any
) -> JobStep:
    """Keep the stage. The status gets `changes` if the actions succeed, else `on_failure`."""

    def status_change(status: RayJobStatus, outcome: Outcome) -> RayJobStatus:
        fields = (on_failure or {}) if has_failed(outcome) else changes
        return msgspec.structs.replace(status, **fields)

    return Step(plan, status_change)


def wait(blocked_by: Blockage, **changes: Any) -> JobStep:
    """Keep the stage until something changes; the status says what the RayJob waits for."""
    why = blocked_by.message
    return stay(Plan(wait=Wait(why), blocked_by=blocked_by), message=why, **changes)


def move(stage: JobDeploymentStatus, plan: Plan = NOTHING, **changes: Any) -> JobStep:
    return stay(plan, job_deployment_status=stage, **changes)


def fail(
    snapshot: JobSnapshot,
    reason: JobFailedReason,
    message: str,
    plan: Plan = NOTHING,
    **changes: Any,
) -> JobStep:
    """End this attempt. Another one follows while `backoffLimit` allows it."""
    failed = (snapshot.status.failed or 0) + 1
    retry = failed <= (snapshot.spec.backoff_limit or 0) and reason not in NOT_RETRIED
    stage = JobDeploymentStatus.RETRYING if retry else JobDeploymentStatus.FAILED
    ended = None if retry else format_time(snapshot.now)
    return move(
        stage, plan, reason=reason, message=message, failed=failed, end_time=ended, **changes
    )


def complete(snapshot: JobSnapshot, job_status: str, **changes: Any) -> JobStep:
    succeeded = (snapshot.status.succeeded or 0) + (job_status == JobStatus.SUCCEEDED)
    return move(
        JobDeploymentStatus.COMPLETE,
        job_status=job_status,
        succeeded=succeeded,
        end_time=format_time(snapshot.now),
        **changes,
    )


def reset(stage: JobDeploymentStatus) -> JobStep:
    """Move to a stage with a status that names nothing of the last attempt."""
    return move(
        stage,
        job_status=JobStatus.NEW,
        job_id="",
        ray_cluster_name="",
        dashboard_url="",
        reason="",
        message="",
        ray_job_info=RayJobInfo(),
        ray_cluster_status=RayClusterStatus(),
        start_time=None,
        end_time=None,
        job_status_check_failure_start_time=None,
    )


def nested_status(snapshot: JobSnapshot) -> dict[str, Any]:
    """The cluster's own status, shown inside the RayJob's (C28)."""
    return {"ray_cluster_status": snapshot.cluster.status} if snapshot.cluster else {}


def with_timers(snapshot: JobSnapshot, step: JobStep) -> JobStep:
    """Wake up at the next deadline too, and when the dashboard has been unreachable for too long."""
    status = step.status_change(snapshot.status, UNTRIED)
    if status.job_deployment_status not in ACTIVE:
        return step
    ends = list(deadlines(snapshot.spec, status).values())
    if since := status.job_status_check_failure_start_time:
        ends.append(parse_time(since) + snapshot.settings.job_status_check_timeout)
    if not ends:
        return step
    left = max(min(ends) - snapshot.now, SHORTEST_TIMER)
    return replace(step, wake_in=earliest(step.wake_in, left))
