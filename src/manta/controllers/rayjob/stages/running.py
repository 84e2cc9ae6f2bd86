"""Running: Ray has the job, or is about to get it. What Ray says of it is the truth."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.job import (
    TERMINAL_JOB_STATUSES,
    JobDeploymentStatus,
    JobFailedReason,
    JobStatus,
    RayJobInfo,
    SubmissionMode,
)
from manta.api.times import format_time, parse_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import (
    SUBMITTED_TO,
    AtSession,
    JobSnapshot,
    NotAsked,
    Silent,
    Told,
    Unknown,
)
from manta.controllers.rayjob.stages.initializing import (
    missed_active_deadline,
    note_head,
)
from manta.controllers.rayjob.stages.loss import lost, met_another_head, withdraw_submitter
from manta.controllers.rayjob.stages.silence import patience_left, silent, silent_for_too_long
from manta.controllers.rayjob.step import Step, complete, fail, move, nested_status, stay, wait
from manta.controllers.rayjob.waits import submitter_at_work
from manta.reconcile.actions import Call
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.pod_health import Blockage

SUBMITTER_GRACE = timedelta(seconds=30)
"""How long a finished submitter may leave us without any word of Ray on the job."""


SIDECAR_RESTARTS = 2
"""How often a submitter beside the head is started again (gate SidecarSubmitterRestart)."""


def run(seen: JobSnapshot) -> Step:
    if seen.spec.suspend:
        return move(seen, JobDeploymentStatus.SUSPENDING, stop(seen, "the RayJob is suspended"))
    if late := missed_active_deadline(seen, _give_up(seen, "activeDeadlineSeconds has passed")):
        return late
    if isinstance(seen.answer, Told) and seen.answer.status in TERMINAL_JOB_STATUSES:
        return _ended(seen, seen.answer)
    if gone := lost(seen):
        return gone
    match seen.answer:
        case NotAsked() | AtSession():
            if seen.head:
                return _with_timers(seen, stay(seen, **nested_status(seen)))
            return _silent(seen, f"RayCluster {seen.status.ray_cluster_name} has no head Pod")
        case Silent(why):
            return _silent(seen, why)
        case Unknown():
            return _unknown(seen)
        case Told():
            return _with_timers(seen, stay(seen, **_heard(seen, seen.answer)))


def stop(seen: JobSnapshot, why: str) -> Plan:
    """Ask Ray to stop the job: best effort, and only where it may still run (C63)."""
    if not seen.status.job_id or seen.status.job_status in TERMINAL_JOB_STATUSES:
        return NOTHING
    if seen.cluster is None or not seen.head:
        return NOTHING
    key = Key(seen.job.metadata.namespace, seen.status.ray_cluster_name)
    arguments = {"job_id": seen.status.job_id}
    return do(
        Call("stop", key, Cause.STOP_JOB, why, arguments, must_succeed=False), independent=True
    )


def _give_up(seen: JobSnapshot, why: str) -> Plan:
    """Stop what runs; and what was never heard of must not be submitted later on."""
    unheard = seen.mode is SubmissionMode.K8S_JOB and not seen.status.job_status
    return stop(seen, why).then(withdraw_submitter(seen, why) if unheard else NOTHING)


# ── what Ray said ────────────────────────────────────────────────────────────────────────


def _heard(seen: JobSnapshot, told: Told) -> dict[str, Any]:
    """The status fields that carry what Ray says."""
    return {
        **nested_status(seen),
        "job_status": told.status,
        "message": told.message,
        "ray_job_info": RayJobInfo(start_time=_text(told.started), end_time=_text(told.ended)),
        "job_status_check_failure_start_time": None,
    }


def _text(moment: datetime | None) -> str | None:
    return format_time(moment) if moment else None


def _ended(seen: JobSnapshot, told: Told) -> Step:
    """Over, says Ray. The submitter gets some time to print the last of the log."""
    heard = _heard(seen, told)
    grace = seen.settings.job_transition_grace
    over = told.ended or seen.now
    if _submitter_works(seen) and seen.now - over < grace:
        left = over + grace - seen.now
        plan = Plan(wait=Wait("the submitter still prints the log", retry_in=left))
        return stay(seen, plan, **heard)
    job_status, message = heard.pop("job_status"), heard.pop("message")
    overdue = JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED if _submitter_works(seen) else None
    if told.status == JobStatus.FAILED:
        reason = overdue or JobFailedReason.APP_FAILED
        return fail(seen, reason, message, job_status=job_status, **heard)
    return complete(seen, job_status, message, reason=overdue or "", **heard)


def _submitter_works(seen: JobSnapshot) -> bool:
    match seen.mode:
        case SubmissionMode.K8S_JOB:
            return seen.submitter is not None and seen.submitter.finished is None
        case SubmissionMode.SIDECAR:
            sidecar = seen.sidecar
            return sidecar is not None and sidecar.state.terminated is None
        case _:
            return False


# ── what Ray did not say ─────────────────────────────────────────────────────────────────


def _silent(seen: JobSnapshot, why: str) -> Step:
    over = silent_for_too_long(seen, why, _give_up(seen, "the dashboard is silent"))
    return over or _with_timers(seen, silent(seen, why))


def _unknown(seen: JobSnapshot) -> Step:
    """Ray answers and knows no such job: not submitted yet, or forgotten."""
    if seen.status.job_status:
        why = f"Ray no longer knows job {seen.status.job_id}: its head came back empty"
        return fail(seen, JobFailedReason.APP_FAILED, why, withdraw_submitter(seen, why))
    match seen.mode:
        case SubmissionMode.HTTP:
            return _submit(seen)
        case SubmissionMode.K8S_JOB if seen.submitter is None:
            why = "the submitter Job was deleted before Ray had the job"
            return fail(seen, JobFailedReason.SUBMISSION_FAILED, why)
        case SubmissionMode.K8S_JOB if met_another_head(seen):
            why = (
                "another Ray answers than the head that the job was for; it was not submitted there"
            )
            return fail(seen, JobFailedReason.APP_FAILED, why, withdraw_submitter(seen, why))
        case SubmissionMode.K8S_JOB:
            return _unknown_to_submitter(seen, _job_end(seen))
        case SubmissionMode.SIDECAR:
            return _unknown_to_submitter(seen, _sidecar_end(seen))
        case SubmissionMode.INTERACTIVE:
            why = f"Ray knows no job {seen.status.job_id} yet; is spec.jobId right?"
            return _heard_of_no_job(seen, Blockage("UnknownJobId", why))


def _heard_of_no_job(seen: JobSnapshot, held_up: Blockage) -> Step:
    """The dashboard answered, so its silence is over; the job is not there yet."""
    heard = {"job_status_check_failure_start_time": None, **nested_status(seen)}
    return _with_timers(seen, wait(seen, held_up, **heard))


def _submit(seen: JobSnapshot) -> Step:
    """HTTPMode: note the head first, submit a round later. A lost reply then repeats the same id
    on the same head, which Ray refuses."""
    meta = seen.job.metadata
    if meta.annotations.get(SUBMITTED_TO) != seen.mark:
        return stay(seen, do(note_head(seen)))
    key = Key(meta.namespace, seen.status.ray_cluster_name)
    call = Call("submit", key, Cause.SUBMIT_BY_HTTP, arguments={"job_id": seen.status.job_id})
    heard = {**nested_status(seen), "job_status_check_failure_start_time": None}
    failing = seen.status.job_status_check_failure_start_time or format_time(seen.now)
    otherwise = msgspec.structs.replace(seen.status, job_status_check_failure_start_time=failing)
    return Step(do(call), msgspec.structs.replace(seen.status, **heard), otherwise)


def _unknown_to_submitter(seen: JobSnapshot, end: tuple[str, datetime] | None) -> Step:
    if end is None:
        return _heard_of_no_job(seen, submitter_at_work(seen))
    how, when = end
    if seen.now - when < SUBMITTER_GRACE:
        # What Ray said last may be older than the submission: only a later word counts.
        left = when + SUBMITTER_GRACE - seen.now
        plan = Plan(wait=Wait("Ray to tell of the job", retry_in=left))
        return stay(seen, plan, **nested_status(seen))
    if how:
        return fail(seen, JobFailedReason.SUBMISSION_FAILED, f"the submitter failed: {how}")
    message = f"the submitter ended, and Ray knows no job {seen.status.job_id}"
    reason = JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED
    return fail(seen, reason, message, job_status=JobStatus.FAILED)


def _job_end(seen: JobSnapshot) -> tuple[str, datetime] | None:
    """How and when the submitter Job ended: ('', when) for success, None while it works."""
    if seen.submitter is None or seen.submitter.finished is None:
        return None
    for condition in seen.submitter.status.conditions:
        if condition.type == seen.submitter.finished:
            when = condition.last_transition_time
            moment = parse_time(when) if when else seen.now
            failed = condition.type == "Failed"
            return (condition.message or condition.reason or "Failed") if failed else "", moment
    return None


def _sidecar_end(seen: JobSnapshot) -> tuple[str, datetime] | None:
    ended = seen.sidecar.state.terminated if seen.sidecar else None
    if seen.sidecar is None or ended is None:
        return None
    may_restart = seen.settings.gates.sidecar_submitter_restart and ended.exit_code
    if may_restart and seen.sidecar.restart_count < SIDECAR_RESTARTS:
        return None
    when = parse_time(ended.finished_at) if ended.finished_at else seen.now
    how = f"{ended.reason or 'Error'}, exit code {ended.exit_code}" if ended.exit_code else ""
    return how, when


def _with_timers(seen: JobSnapshot, step: Step) -> Step:
    """Come back when the next limit passes; until then only changes matter."""
    left = []
    if seen.spec.active_deadline_seconds is not None and seen.status.start_time:
        limit = timedelta(seconds=seen.spec.active_deadline_seconds)
        left.append(parse_time(seen.status.start_time) + limit - seen.now)
    if (patience := patience_left(seen, step)) is not None:
        left.append(patience)
    if not left:
        return step
    soon = max(min(left), timedelta(milliseconds=100))
    why = step.plan.wait.why if step.plan.wait else "the job to end"
    return replace(step, plan=Plan(step.plan.stages, Wait(why, retry_in=soon)))
