"""New, and back from a failed validation: choose the identities of an attempt, use none of them."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.ray.job import JobDeploymentStatus, JobStatus, SubmissionMode
from manta.api.ray.resources import RAY_JOBS
from manta.api.times import format_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.step import Step, move, stay
from manta.reconcile.actions import Patch
from manta.reconcile.plan import do


def begin(seen: JobSnapshot) -> Step:
    """Finalizer first; then, a round later, the submission id and the cluster's name in status."""
    meta = seen.job.metadata
    if names.FINALIZER_RAY_JOB not in meta.finalizers:
        finalizers = [*meta.finalizers, names.FINALIZER_RAY_JOB]
        patch = Patch(
            RAY_JOBS,
            meta.key,
            {"metadata": {"finalizers": finalizers}},
            Cause.ADD_FINALIZER,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        return stay(seen, do(patch))
    return move(
        seen,
        JobDeploymentStatus.INITIALIZING,
        job_id=new_job_id(seen),
        ray_cluster_name=_cluster_name(seen),
        start_time=format_time(seen.now),
        reason="",
        message="",
    )


def new_job_id(seen: JobSnapshot) -> str:
    if seen.spec.job_id:
        return seen.spec.job_id
    if seen.mode is SubmissionMode.INTERACTIVE:
        return ""
    return f"{seen.job.metadata.name}-{seen.suffix('job')}"


def _cluster_name(seen: JobSnapshot) -> str:
    borrowed = seen.spec.cluster_selector.get(names.LABEL_CLUSTER)
    return borrowed or f"{seen.job.metadata.name}-{seen.suffix('cluster')}"


def recover(seen: JobSnapshot) -> Step:
    """The spec is valid again: take up the attempt where it stood, or begin one.

    What was handed over is never handed over again: without its cluster it counts as lost.
    """
    status = seen.status
    stage = JobDeploymentStatus.INITIALIZING
    if status.end_time:
        won = status.job_status in (JobStatus.SUCCEEDED, JobStatus.STOPPED)
        stage = JobDeploymentStatus.COMPLETE if won else JobDeploymentStatus.FAILED
    elif status.job_status or status.dashboard_url:
        stage = JobDeploymentStatus.RUNNING
    elif not status.ray_cluster_name:
        stage = JobDeploymentStatus.NEW
    return move(seen, stage, reason="", message="")
