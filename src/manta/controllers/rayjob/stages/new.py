"""New, and ValidationFailed with a spec that is valid again: choose the names of an attempt."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.ray.job import JobDeploymentStatus, JobStatus, SubmissionMode
from manta.api.ray.resources import RAY_JOBS
from manta.api.times import format_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.transitions import JobStep, move, stay
from manta.reconcile.finalizers import add_finalizer
from manta.reconcile.plan import do


def start_attempt(snapshot: JobSnapshot) -> JobStep:
    """Add the finalizer; in the next reconcile, write submission id and cluster name to the status.

    Nothing is created under these names before the status has them.
    """
    meta = snapshot.job.metadata
    if names.FINALIZER_RAY_JOB not in meta.finalizers:
        finalizer = names.FINALIZER_RAY_JOB
        return stay(do(add_finalizer(RAY_JOBS, meta, finalizer, Cause.ADD_FINALIZER)))
    return move(
        JobDeploymentStatus.INITIALIZING,
        job_id=new_job_id(snapshot),
        ray_cluster_name=_cluster_name(snapshot),
        start_time=format_time(snapshot.now),
        reason="",
        message="",
    )


def new_job_id(snapshot: JobSnapshot) -> str:
    if snapshot.spec.job_id:
        return snapshot.spec.job_id
    if snapshot.mode is SubmissionMode.INTERACTIVE:
        return ""
    return f"{snapshot.job.metadata.name}-{snapshot.suffix('job')}"


def _cluster_name(snapshot: JobSnapshot) -> str:
    selected = snapshot.spec.cluster_selector.get(names.LABEL_CLUSTER)
    return selected or f"{snapshot.job.metadata.name}-{snapshot.suffix('cluster')}"


def recover(snapshot: JobSnapshot) -> JobStep:
    """The spec is valid again: resume the attempt in its stage, or start one.

    A job that may be submitted resumes as Running, which never submits it to another head.
    """
    status = snapshot.status
    stage = JobDeploymentStatus.INITIALIZING
    if status.end_time:
        completed = status.job_status in (JobStatus.SUCCEEDED, JobStatus.STOPPED)
        stage = JobDeploymentStatus.COMPLETE if completed else JobDeploymentStatus.FAILED
    elif status.job_status or status.dashboard_url:
        stage = JobDeploymentStatus.RUNNING
    elif not status.ray_cluster_name:
        stage = JobDeploymentStatus.NEW
    return move(stage, reason="", message="")
