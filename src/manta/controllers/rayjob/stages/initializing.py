"""Initializing and Waiting: until there is a cluster that is ready, and a job to run on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from manta.api.ray.job import JobDeploymentStatus, JobFailedReason, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS
from manta.api.times import parse_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.gang import ganged_cluster, ganged_submitter
from manta.controllers.rayjob.handover import dashboard_address, planned_cluster, submission
from manta.controllers.rayjob.inquire import wants_session
from manta.controllers.rayjob.snapshot import SUBMITTED_TO, AtSession, JobSnapshot, Silent
from manta.controllers.rayjob.stages.beginning import new_job_id
from manta.controllers.rayjob.stages.loss import lost
from manta.controllers.rayjob.stages.silence import patience_left, silent, silent_for_too_long
from manta.controllers.rayjob.step import Step, fail, move, nested_status, stay, wait
from manta.controllers.rayjob.waits import cluster_missing, cluster_not_ready, dashboard_missing
from manta.manifests.job_cluster import build_job_cluster
from manta.manifests.submitter import build_submitter_job
from manta.reconcile.actions import Create, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.pod_health import Blockage
from manta.rules.validation.job import lacks_entrypoint


def initialize(seen: JobSnapshot) -> Step:
    if seen.spec.suspend:
        return move(seen, JobDeploymentStatus.SUSPENDING)
    if late := missed_deadline(seen):
        return late
    if not seen.status.job_id and (job_id := new_job_id(seen)):
        return stay(seen, job_id=job_id)  # it was in InteractiveMode when it began
    if seen.cluster is None:
        return _without_cluster(seen)
    if seen.mode is SubmissionMode.SIDECAR and (step := _watch_sidecar(seen)):
        return step
    if held_up := dashboard_missing(seen) or _cluster_trouble(seen):
        heard = {**nested_status(seen), "job_status_check_failure_start_time": None}
        return _patiently(seen, wait(seen, held_up, **heard))
    if seen.mode is SubmissionMode.INTERACTIVE and not seen.spec.job_id:
        return _patiently(
            seen, wait(seen, FOR_USER, job_deployment_status=JobDeploymentStatus.WAITING)
        )
    if wants_session(seen) and not isinstance(seen.answer, AtSession):
        return _ask_for_session(seen)
    return _start(seen)


def _ask_for_session(seen: JobSnapshot) -> Step:
    """No submitter without knowing which head it is for: it must not serve the next one too."""
    if not isinstance(seen.answer, Silent):
        return _patiently(seen, wait(seen, cluster_not_ready(seen)))
    why = seen.answer.why
    return silent_for_too_long(seen, why) or _patiently(seen, silent(seen, why))


def _watch_sidecar(seen: JobSnapshot) -> Step | None:
    """It submits by itself: once it has begun, a lost head may have taken the job along. Nobody
    knows how far a head had come that was lost while nobody looked."""
    had_head = seen.cluster is not None and seen.cluster.status.head.pod_name
    if seen.submitted_to or (had_head and seen.head_pod is None):
        return lost(seen)
    if not seen.sidecar_began:
        return None
    return _patiently(seen, stay(seen, do(note_head(seen)), **nested_status(seen)))


NO_ENTRYPOINT: Final = (
    "spec.entrypoint is empty, and the submitter has no command of its own:"
    " name the command to run on the cluster"
)
FOR_USER: Final = Blockage(
    "WaitingForJobId",
    "the cluster is ready; set spec.jobId to the id of the job that you submit",
)


def _cluster_trouble(seen: JobSnapshot) -> Blockage | None:
    """A sidecar submits as soon as its head is up, whatever the workers do (C60)."""
    alone = seen.mode is SubmissionMode.SIDECAR and seen.sidecar_began and seen.head_is_ready
    return None if seen.cluster_is_ready or alone else cluster_not_ready(seen)


def wait_for_user(seen: JobSnapshot) -> Step:
    """InteractiveMode: the user submits, and tells us the id."""
    if seen.spec.suspend:
        return move(seen, JobDeploymentStatus.SUSPENDING)
    if late := missed_deadline(seen):
        return late
    if not seen.spec.job_id:
        return _patiently(seen, wait(seen, FOR_USER, **nested_status(seen)))
    return move(
        seen,
        JobDeploymentStatus.RUNNING,
        job_id=seen.spec.job_id,
        message="",
        dashboard_url=dashboard_address(seen),
    )


def _without_cluster(seen: JobSnapshot) -> Step:
    if seen.borrows_cluster:
        return _patiently(seen, wait(seen, cluster_missing(seen)))
    create = Create(RAY_CLUSTERS, _cluster_manifest(seen), Cause.NEW_ATTEMPT)
    return _patiently(seen, stay(seen, do(create)))


def _cluster_manifest(seen: JobSnapshot) -> dict[str, Any]:
    manifest = build_job_cluster(
        seen.job, seen.cluster_spec or {}, submission(seen), planned_cluster(seen)
    )
    return ganged_cluster(seen, manifest)


def _start(seen: JobSnapshot) -> Step:
    """The cluster is ready: hand the job over, in the way that the mode says."""
    if lacks_entrypoint(seen.spec):
        return fail(seen, JobFailedReason.SUBMISSION_FAILED, NO_ENTRYPOINT, **nested_status(seen))
    started = {**nested_status(seen), "dashboard_url": dashboard_address(seen), "message": ""}
    started["job_status_check_failure_start_time"] = None
    return move(seen, JobDeploymentStatus.RUNNING, _hand_over(seen), **started)


def _hand_over(seen: JobSnapshot) -> Plan:
    if seen.mode is not SubmissionMode.K8S_JOB or seen.submitter is not None:
        return NOTHING
    assert seen.cluster is not None
    manifest = build_submitter_job(seen.job, seen.cluster, submission(seen))
    # The Job itself remembers which head it was made for: one write, and no way to lose it.
    manifest["metadata"]["annotations"] = {SUBMITTED_TO: seen.mark}
    manifest["spec"]["template"] = ganged_submitter(seen, manifest["spec"]["template"])
    return do(Create(JOBS, manifest, Cause.SUBMIT_BY_JOB))


def note_head(seen: JobSnapshot) -> Patch:
    """Write down which head has the job, on the RayJob itself."""
    meta = seen.job.metadata
    body = {"metadata": {"annotations": {SUBMITTED_TO: seen.mark}}}
    return Patch(RAY_JOBS, meta.key, body, Cause.NOTE_HEAD, uid=meta.uid)


# ── deadlines ────────────────────────────────────────────────────────────────────────────


def missed_deadline(seen: JobSnapshot) -> Step | None:
    """`activeDeadlineSeconds` always, `preRunningDeadlineSeconds` before the job runs."""
    if late := missed_active_deadline(seen, NOTHING):
        return late
    limit = seen.spec.pre_running_deadline_seconds
    if limit is not None and _since_start(seen) >= timedelta(seconds=limit):
        waits_for = seen.status.message or f"stage {seen.stage}"
        message = f"not running within preRunningDeadlineSeconds of {limit} s; last: {waits_for}"
        return fail(seen, JobFailedReason.PRE_RUNNING_DEADLINE_EXCEEDED, message)
    return None


def missed_active_deadline(seen: JobSnapshot, plan: Plan) -> Step | None:
    limit = seen.spec.active_deadline_seconds
    if limit is None or _since_start(seen) < timedelta(seconds=limit):
        return None
    message = f"the RayJob has passed its activeDeadlineSeconds of {limit} s"
    return fail(seen, JobFailedReason.DEADLINE_EXCEEDED, message, plan)


def _since_start(seen: JobSnapshot) -> timedelta:
    started = seen.status.start_time
    return seen.now - parse_time(started) if started else timedelta(0)


def _patiently(seen: JobSnapshot, step: Step) -> Step:
    """Come back by the clock for the next deadline; everything else is a watch event."""
    limits = [seen.spec.active_deadline_seconds, seen.spec.pre_running_deadline_seconds]
    left = [timedelta(seconds=limit) - _since_start(seen) for limit in limits if limit is not None]
    if (patience := patience_left(seen, step)) is not None:
        left.append(patience)
    if not left:
        return step
    old = step.plan.wait or Wait("a deadline")
    timer = Wait(old.why, retry_in=max(min(left), timedelta(milliseconds=100)))
    return replace(step, plan=Plan(step.plan.stages, timer, step.plan.notes))
