"""A dashboard that does not answer: tolerable for some minutes (C40), then a failure."""

from __future__ import annotations

from datetime import timedelta

from manta.api.ray.job import JobFailedReason
from manta.api.times import format_time, parse_time
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.step import Step, fail, nested_status, wait
from manta.controllers.rayjob.waits import DASHBOARD_SILENT
from manta.reconcile.plan import NOTHING, Plan
from manta.rules.pod_health import Blockage


def silent_for_too_long(seen: JobSnapshot, why: str, plan: Plan = NOTHING) -> Step | None:
    since = seen.status.job_status_check_failure_start_time
    limit = seen.settings.job_status_check_timeout
    if since is None or seen.now - parse_time(since) < limit:
        return None
    message = f"the dashboard has not answered for {limit.total_seconds():.0f} s: {why}"
    return fail(seen, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED, message, plan)


def silent(seen: JobSnapshot, why: str) -> Step:
    """Note since when, and wait. The first complaint is kept: the words of a timeout differ from
    try to try."""
    since = seen.status.job_status_check_failure_start_time
    said = seen.status.message if since else f"the dashboard does not answer: {why}"
    began = since or format_time(seen.now)
    noted = {"job_status_check_failure_start_time": began, **nested_status(seen)}
    return wait(seen, Blockage(DASHBOARD_SILENT, said), **noted)


def patience_left(seen: JobSnapshot, step: Step) -> timedelta | None:
    """How long this silence is still tolerated; None: there is none."""
    since = step.status.job_status_check_failure_start_time
    return parse_time(since) + seen.settings.job_status_check_timeout - seen.now if since else None
