"""Running: the job is submitted or about to be. What Ray reports of it decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from manta.api.conditions import Blockage
from manta.api.meta import Key
from manta.api.ray.job import (
    TERMINAL_JOB_STATUSES,
    JobDeploymentStatus,
    JobFailedReason,
    JobStatus,
    RayJobInfo,
    SubmissionMode,
)
from manta.api.times import format_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.facts import (
    is_submitter_running,
    reached_other_session,
    sidecar_end,
    submitter_job_end,
)
from manta.controllers.rayjob.first_failure import with_first_failure
from manta.controllers.rayjob.snapshot import (
    SUBMITTED_TO,
    DashboardReply,
    DashboardUnreachable,
    JobNotFound,
    JobSnapshot,
    NotQueried,
    SessionReply,
)
from manta.controllers.rayjob.stages.dashboard_timeout import (
    dashboard_timed_out,
    dashboard_unreachable,
    failing_since,
)
from manta.controllers.rayjob.stages.head_lost import delete_submitter, head_lost
from manta.controllers.rayjob.stages.initializing import missed_active_deadline, record_head
from manta.controllers.rayjob.transitions import (
    JobStep,
    complete,
    fail,
    move,
    nested_status,
    stay,
    wait,
    with_timers,
)
from manta.controllers.rayjob.wait_reasons import submitter_not_done, submitter_overdue_in
from manta.reconcile.actions import Call
from manta.reconcile.plan import NOTHING, Plan, Wait, do

SUBMITTER_GRACE = timedelta(seconds=30)
"""How long after the submitter's end Ray may still not know the job."""


def run(snapshot: JobSnapshot) -> JobStep:
    if snapshot.spec.suspend:
        return move(JobDeploymentStatus.SUSPENDING, stop(snapshot, "the RayJob is suspended"))
    given_up = _stop_and_withdraw(snapshot, "activeDeadlineSeconds has passed")
    if late := missed_active_deadline(snapshot, given_up):
        return late
    reply = snapshot.answer
    if isinstance(reply, DashboardReply) and reply.status in TERMINAL_JOB_STATUSES:
        return _job_ended(snapshot, reply)
    if gone := head_lost(snapshot):
        return gone
    return with_timers(snapshot, _follow(snapshot))


def _follow(snapshot: JobSnapshot) -> JobStep:
    match snapshot.answer:
        case NotQueried() | SessionReply():
            if snapshot.head:
                return stay(**nested_status(snapshot))
            why = f"RayCluster {snapshot.status.ray_cluster_name} has no head Pod"
            return _no_answer(snapshot, why)
        case DashboardUnreachable(why):
            return _no_answer(snapshot, why)
        case JobNotFound():
            return _job_not_found(snapshot)
        case DashboardReply():
            return stay(**_reported_fields(snapshot, snapshot.answer))


def stop(snapshot: JobSnapshot, why: str) -> Plan:
    """Ask Ray to stop the job if it may still run: best effort (C63)."""
    if not snapshot.status.job_id or snapshot.status.job_status in TERMINAL_JOB_STATUSES:
        return NOTHING
    if snapshot.cluster is None or not snapshot.head:
        return NOTHING
    key = Key(snapshot.job.metadata.namespace, snapshot.status.ray_cluster_name)
    arguments = {"job_id": snapshot.status.job_id}
    return do(
        Call("stop", key, Cause.STOP_JOB, why, arguments, must_succeed=False), independent=True
    )


def _stop_and_withdraw(snapshot: JobSnapshot, why: str) -> Plan:
    """Stop the job, and delete a submitter that could still submit it later."""
    unsubmitted = snapshot.mode is SubmissionMode.K8S_JOB and not snapshot.status.job_status
    return stop(snapshot, why).then(delete_submitter(snapshot, why) if unsubmitted else NOTHING)


def _no_answer(snapshot: JobSnapshot, why: str) -> JobStep:
    given_up = _stop_and_withdraw(snapshot, "the dashboard does not answer")
    return dashboard_timed_out(snapshot, why, given_up) or dashboard_unreachable(snapshot, why)


# ── Ray knows the job ────────────────────────────────────────────────────────────────────


def _reported_fields(snapshot: JobSnapshot, reply: DashboardReply) -> dict[str, Any]:
    """The status fields that show what Ray reports."""
    times = RayJobInfo(start_time=_text(reply.started), end_time=_text(reply.ended))
    return {
        **nested_status(snapshot),
        "job_status": reply.status,
        "message": with_first_failure(snapshot, reply.message, reply.first_failure),
        "ray_job_info": times,
        "job_status_check_failure_start_time": None,
    }


def _text(moment: datetime | None) -> str | None:
    return format_time(moment) if moment else None


def _job_ended(snapshot: JobSnapshot, reply: DashboardReply) -> JobStep:
    """Ray reports that the job has ended. The submitter gets some time to print the end of the log."""
    fields = _reported_fields(snapshot, reply)
    ended, grace = reply.ended or snapshot.now, snapshot.settings.job_transition_grace
    overdue = None
    if is_submitter_running(snapshot):
        left = ended + grace - snapshot.now
        if left > timedelta(0):
            return stay(Plan(wait=Wait("the submitter still prints the log", left)), **fields)
        overdue = JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED
    if reply.status == JobStatus.FAILED:
        message = fields.pop("message")
        return fail(snapshot, overdue or JobFailedReason.APP_FAILED, message, **fields)
    return complete(snapshot, fields.pop("job_status"), reason=overdue or "", **fields)


# ── Ray does not know the job ────────────────────────────────────────────────────────────


def _job_not_found(snapshot: JobSnapshot) -> JobStep:
    """The job is not submitted yet, or Ray has forgotten it."""
    job_id = snapshot.status.job_id
    if snapshot.status.job_status:
        why = f"Ray no longer knows job {job_id}: its head restarted without its memory"
        return fail(snapshot, JobFailedReason.APP_FAILED, why, delete_submitter(snapshot, why))
    match snapshot.mode:
        case SubmissionMode.HTTP:
            return _submit(snapshot)
        case SubmissionMode.K8S_JOB if snapshot.submitter is None:
            why = "the submitter Job was deleted before it submitted the job"
            return fail(snapshot, JobFailedReason.SUBMISSION_FAILED, why)
        case SubmissionMode.K8S_JOB if reached_other_session(snapshot):
            why = "the submitter reached another Ray head than its own, and did not submit there"
            return fail(snapshot, JobFailedReason.APP_FAILED, why, delete_submitter(snapshot, why))
        case SubmissionMode.K8S_JOB:
            return _not_found_after_submission(snapshot, submitter_job_end(snapshot))
        case SubmissionMode.SIDECAR:
            return _not_found_after_submission(snapshot, sidecar_end(snapshot))
        case SubmissionMode.INTERACTIVE:
            why = f"Ray knows no job {job_id} yet; is spec.jobId right?"
            return _wait_for_job(snapshot, Blockage("UnknownJobId", why))


def _wait_for_job(snapshot: JobSnapshot, blocked_by: Blockage) -> JobStep:
    """The dashboard answers, so the time of its failures is cleared."""
    cluster = nested_status(snapshot)
    return wait(blocked_by, job_status_check_failure_start_time=None, **cluster)


def _submit(snapshot: JobSnapshot) -> JobStep:
    """HTTPMode: record the head, and submit in the next reconcile. If the reply is lost, the same
    id goes to the same head again, which Ray refuses. What Ray accepted is pending: if Ray does not
    know it later, it has forgotten it."""
    meta, status = snapshot.job.metadata, snapshot.status
    if meta.annotations.get(SUBMITTED_TO) != snapshot.submission_mark:
        return stay(do(record_head(snapshot)))
    key = Key(meta.namespace, status.ray_cluster_name)
    call = Call("submit", key, Cause.SUBMIT_BY_HTTP, arguments={"job_id": status.job_id})
    since = failing_since(snapshot) or format_time(snapshot.now)
    return stay(
        do(call),
        on_failure={"job_status_check_failure_start_time": since},
        job_status=JobStatus.PENDING,
        job_status_check_failure_start_time=None,
        **nested_status(snapshot),
    )


def _not_found_after_submission(snapshot: JobSnapshot, end: tuple[str, datetime] | None) -> JobStep:
    if end is None:
        step = _wait_for_job(snapshot, submitter_not_done(snapshot))
        return replace(step, wake_in=submitter_overdue_in(snapshot))
    failure, ended = end
    left = ended + SUBMITTER_GRACE - snapshot.now
    if left > timedelta(0):
        # The last answer of the dashboard may be older than the submission: wait for a newer one.
        plan = Plan(wait=Wait("Ray to report the job", retry_in=left))
        return stay(plan, **nested_status(snapshot))
    if failure:
        why = f"the submitter failed: {failure}"
        return fail(snapshot, JobFailedReason.SUBMISSION_FAILED, why)
    message = f"the submitter ended, and Ray knows no job {snapshot.status.job_id}"
    reason = JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED
    return fail(snapshot, reason, message, job_status=JobStatus.FAILED)
