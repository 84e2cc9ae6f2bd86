"""A dashboard that does not answer: tolerated for some minutes (C40), then the attempt fails."""

from __future__ import annotations

from manta.api.conditions import Blockage
from manta.api.ray.job import JobFailedReason
from manta.api.times import format_time, parse_time
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.transitions import JobStep, fail, nested_status, wait
from manta.controllers.rayjob.wait_reasons import DASHBOARD_SILENT
from manta.reconcile.plan import NOTHING, Plan


def failing_since(snapshot: JobSnapshot) -> str | None:
    """When the failures began, by the status; None if there are none.

    A time to come was written while a clock was ahead, and the RayJob would wait until then: the failures count
    from now on instead.
    """
    since = snapshot.status.job_status_check_failure_start_time
    return None if since and parse_time(since) > snapshot.now else since


def dashboard_timed_out(snapshot: JobSnapshot, why: str, plan: Plan = NOTHING) -> JobStep | None:
    """Fail the attempt with this plan; None while the dashboard still has time."""
    since = failing_since(snapshot)
    limit = snapshot.settings.job_status_check_timeout
    if since is None or snapshot.now - parse_time(since) < limit:
        return None
    message = f"the dashboard has not answered for {limit.total_seconds():.0f} s: {why}"
    return fail(snapshot, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED, message, plan)


def dashboard_unreachable(snapshot: JobSnapshot, why: str) -> JobStep:
    """Record when the failures began, and wait. The first message is kept: later ones differ only
    in details such as ports, and each would be a write."""
    since = failing_since(snapshot)
    message = snapshot.status.message if since else f"the dashboard does not answer: {why}"
    return wait(
        Blockage(DASHBOARD_SILENT, message),
        job_status_check_failure_start_time=since or format_time(snapshot.now),
        **nested_status(snapshot),
    )
