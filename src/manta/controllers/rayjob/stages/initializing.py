"""Initializing and Waiting: until a cluster is ready and the job can be submitted to it."""

from __future__ import annotations

from typing import Any, Final

from manta.api.conditions import Blockage
from manta.api.ray.job import JobDeploymentStatus, JobFailedReason, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.facts import (
    NO_ENTRYPOINT,
    dashboard_address,
    deadlines,
    needs_session,
)
from manta.controllers.rayjob.gang import ganged_cluster, ganged_submitter
from manta.controllers.rayjob.snapshot import (
    SUBMITTED_TO,
    DashboardUnreachable,
    JobSnapshot,
    SessionReply,
)
from manta.controllers.rayjob.stages.dashboard_timeout import (
    dashboard_timed_out,
    dashboard_unreachable,
)
from manta.controllers.rayjob.stages.head_lost import head_lost
from manta.controllers.rayjob.stages.new import new_job_id
from manta.controllers.rayjob.submission import planned_cluster, submission
from manta.controllers.rayjob.transitions import (
    JobStep,
    fail,
    move,
    nested_status,
    stay,
    wait,
    with_timers,
)
from manta.controllers.rayjob.wait_reasons import (
    cluster_missing,
    cluster_not_ready,
    dashboard_missing,
)
from manta.manifests.job_cluster import build_job_cluster
from manta.manifests.submitter import build_submitter_job
from manta.reconcile.actions import Create, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.running_head import as_it_runs
from manta.rules.validation.job import lacks_entrypoint

FOR_USER: Final = Blockage(
    "WaitingForJobId", "the cluster is ready; set spec.jobId to the id of the job that you submit"
)


def initialize(snapshot: JobSnapshot) -> JobStep:
    if snapshot.spec.suspend:
        return move(JobDeploymentStatus.SUSPENDING)
    if late := missed_deadline(snapshot):
        return late
    if not snapshot.status.job_id and (job_id := new_job_id(snapshot)):
        return stay(job_id=job_id)  # it was in InteractiveMode when the attempt started
    return with_timers(snapshot, _next_step(snapshot))


def _next_step(snapshot: JobSnapshot) -> JobStep:
    if snapshot.cluster is None:
        return _without_cluster(snapshot)
    if snapshot.mode is SubmissionMode.SIDECAR and (step := _watch_sidecar(snapshot)):
        return step
    if blocked_by := dashboard_missing(snapshot) or _cluster_blockage(snapshot):
        cluster = nested_status(snapshot)
        return wait(blocked_by, job_status_check_failure_start_time=None, **cluster)
    if snapshot.mode is SubmissionMode.INTERACTIVE and not snapshot.spec.job_id:
        return wait(FOR_USER, job_deployment_status=JobDeploymentStatus.WAITING)
    if needs_session(snapshot) and not isinstance(snapshot.answer, SessionReply):
        return _wait_for_session(snapshot)
    return _start(snapshot)


def _wait_for_session(snapshot: JobSnapshot) -> JobStep:
    """Without the session the submitter could submit to another head than the one it is for."""
    if not isinstance(snapshot.answer, DashboardUnreachable):
        return wait(cluster_not_ready(snapshot))
    why = snapshot.answer.why
    return dashboard_timed_out(snapshot, why) or dashboard_unreachable(snapshot, why)


def _watch_sidecar(snapshot: JobSnapshot) -> JobStep | None:
    """Record the head once its sidecar has started: from then on the job may be lost with the head.
    A head that was lost unobserved may have had the job too."""
    had_head = snapshot.cluster is not None and snapshot.cluster.status.head.pod_name
    if snapshot.submitted_to or (had_head and snapshot.head_pod is None):
        return head_lost(snapshot)
    if not snapshot.sidecar_started:
        return None
    return stay(do(record_head(snapshot)), **nested_status(snapshot))


def _cluster_blockage(snapshot: JobSnapshot) -> Blockage | None:
    """A sidecar submits as soon as its head is ready, also while workers are missing (C60)."""
    sidecar = snapshot.mode is SubmissionMode.SIDECAR
    submits_alone = sidecar and snapshot.sidecar_started and snapshot.head_is_ready
    if snapshot.cluster_is_ready or submits_alone:
        return None
    return cluster_not_ready(snapshot)


def wait_for_user(snapshot: JobSnapshot) -> JobStep:
    """InteractiveMode: the user submits the job and sets `spec.jobId`."""
    if snapshot.spec.suspend:
        return move(JobDeploymentStatus.SUSPENDING)
    if late := missed_deadline(snapshot):
        return late
    if not snapshot.spec.job_id:
        return with_timers(snapshot, wait(FOR_USER, **nested_status(snapshot)))
    return move(
        JobDeploymentStatus.RUNNING,
        job_id=snapshot.spec.job_id,
        message="",
        dashboard_url=dashboard_address(snapshot),
    )


def _without_cluster(snapshot: JobSnapshot) -> JobStep:
    if snapshot.borrows_cluster:
        return wait(cluster_missing(snapshot))
    return stay(do(Create(RAY_CLUSTERS, _cluster_manifest(snapshot), Cause.NEW_ATTEMPT)))


def _cluster_manifest(snapshot: JobSnapshot) -> dict[str, Any]:
    manifest = build_job_cluster(
        snapshot.job, snapshot.cluster_spec or {}, submission(snapshot), planned_cluster(snapshot)
    )
    return ganged_cluster(snapshot, manifest)


def _start(snapshot: JobSnapshot) -> JobStep:
    """The cluster is ready: submit the job in the way of its submission mode."""
    cluster = nested_status(snapshot)
    if lacks_entrypoint(snapshot.spec):
        return fail(snapshot, JobFailedReason.SUBMISSION_FAILED, NO_ENTRYPOINT, **cluster)
    return move(
        JobDeploymentStatus.RUNNING,
        _create_submitter(snapshot),
        dashboard_url=dashboard_address(snapshot),
        message="",
        job_status_check_failure_start_time=None,
        **cluster,
    )


def _create_submitter(snapshot: JobSnapshot) -> Plan:
    if snapshot.mode is not SubmissionMode.K8S_JOB or snapshot.submitter is not None:
        return NOTHING
    assert snapshot.cluster is not None
    cluster = as_it_runs(snapshot.cluster, snapshot.head_pod)
    manifest = build_submitter_job(snapshot.job, cluster, submission(snapshot))
    # The Job itself records its head: one write, which cannot be lost half-way.
    manifest["metadata"]["annotations"] = {SUBMITTED_TO: snapshot.submission_mark}
    manifest["spec"]["template"] = ganged_submitter(snapshot, manifest["spec"]["template"])
    return do(Create(JOBS, manifest, Cause.SUBMIT_BY_JOB))


def record_head(snapshot: JobSnapshot) -> Patch:
    """Record in an annotation of the RayJob which head has the job."""
    meta = snapshot.job.metadata
    body = {"metadata": {"annotations": {SUBMITTED_TO: snapshot.submission_mark}}}
    return Patch(RAY_JOBS, meta.key, body, Cause.NOTE_HEAD, uid=meta.uid)


# ── deadlines ────────────────────────────────────────────────────────────────────────────


def missed_deadline(snapshot: JobSnapshot) -> JobStep | None:
    """Fail the attempt if `activeDeadlineSeconds` or `preRunningDeadlineSeconds` has passed."""
    if late := missed_active_deadline(snapshot, NOTHING):
        return late
    if not _is_missed(snapshot, "preRunningDeadlineSeconds"):
        return None
    limit = snapshot.spec.pre_running_deadline_seconds
    last = snapshot.status.message or f"stage {snapshot.stage}"
    message = f"not running within preRunningDeadlineSeconds of {limit} s; last: {last}"
    return fail(snapshot, JobFailedReason.PRE_RUNNING_DEADLINE_EXCEEDED, message)


def missed_active_deadline(snapshot: JobSnapshot, plan: Plan) -> JobStep | None:
    if not _is_missed(snapshot, "activeDeadlineSeconds"):
        return None
    limit = snapshot.spec.active_deadline_seconds
    message = f"the RayJob has passed its activeDeadlineSeconds of {limit} s"
    return fail(snapshot, JobFailedReason.DEADLINE_EXCEEDED, message, plan)


def _is_missed(snapshot: JobSnapshot, field: str) -> bool:
    at = deadlines(snapshot.spec, snapshot.status).get(field)
    return at is not None and at <= snapshot.now
