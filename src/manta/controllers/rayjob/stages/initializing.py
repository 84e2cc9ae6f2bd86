"""Initializing and Waiting: until there is a cluster that is ready, and a job to run on it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from manta.api.conditions import find
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.job import JobDeploymentStatus, JobFailedReason, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import JOBS
from manta.api.times import parse_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.handover import dashboard_address, planned_cluster, submission
from manta.controllers.rayjob.snapshot import SUBMITTED_TO, JobSnapshot
from manta.controllers.rayjob.step import Step, fail, move, stay, wait
from manta.manifests.job_cluster import build_job_cluster
from manta.manifests.submitter import build_submitter_job
from manta.reconcile.actions import Create
from manta.reconcile.plan import NOTHING, Plan, Wait, do

BLOCKING = (
    ClusterConditionType.REPLICA_FAILURE,
    ClusterConditionType.HEAD_POD_READY,
    ClusterConditionType.PROVISIONED,
)


def initialize(seen: JobSnapshot) -> Step:
    if seen.spec.suspend:
        return move(seen, JobDeploymentStatus.SUSPENDING)
    if late := missed_deadline(seen):
        return late
    if seen.cluster is None:
        return _without_cluster(seen)
    if not seen.cluster_is_ready:
        return _patiently(seen, wait(seen, _what_cluster_waits_for(seen), **nested_status(seen)))
    if seen.mode is SubmissionMode.INTERACTIVE and not seen.spec.job_id:
        message = "the cluster is ready; set spec.jobId to the id of the job that you submit"
        return _patiently(seen, move(seen, JobDeploymentStatus.WAITING, message=message))
    return _start(seen)


def wait_for_user(seen: JobSnapshot) -> Step:
    """InteractiveMode: the user submits, and tells us the id."""
    if late := missed_deadline(seen):
        return late
    if not seen.spec.job_id:
        return _patiently(seen, stay(seen, **nested_status(seen)))
    return move(seen, JobDeploymentStatus.RUNNING, job_id=seen.spec.job_id, message="")


def _without_cluster(seen: JobSnapshot) -> Step:
    if seen.borrows_cluster:
        name = seen.status.ray_cluster_name
        why = f'clusterSelector names RayCluster "{name}", and there is none in this namespace'
        return _patiently(seen, wait(seen, why))
    create = Create(RAY_CLUSTERS, _cluster_manifest(seen), Cause.NEW_ATTEMPT)
    return _patiently(seen, stay(seen, do(create)))


def _cluster_manifest(seen: JobSnapshot) -> dict[str, Any]:
    return build_job_cluster(
        seen.job, seen.cluster_spec or {}, submission(seen), planned_cluster(seen)
    )


def _start(seen: JobSnapshot) -> Step:
    """The cluster is ready: hand the job over, in the way that the mode says."""
    started = {**nested_status(seen), "dashboard_url": dashboard_address(seen), "message": ""}
    if seen.mode is not SubmissionMode.K8S_JOB or seen.submitter is not None:
        return move(seen, JobDeploymentStatus.RUNNING, **started)
    assert seen.cluster is not None
    manifest = build_submitter_job(seen.job, seen.cluster, submission(seen))
    # The Job itself remembers which head it was made for: one write, and no way to lose it.
    manifest["metadata"]["annotations"] = {SUBMITTED_TO: f"{seen.status.job_id}@{seen.head}"}
    create = Create(JOBS, manifest, Cause.SUBMIT_BY_JOB)
    return move(seen, JobDeploymentStatus.RUNNING, do(create), **started)


def nested_status(seen: JobSnapshot) -> dict[str, Any]:
    """The cluster's own status, shown inside the RayJob's (C28)."""
    return {"ray_cluster_status": seen.cluster.status} if seen.cluster else {}


def _what_cluster_waits_for(seen: JobSnapshot) -> str:
    """The cluster's own words on what keeps it from being ready (C29)."""
    assert seen.cluster is not None
    for type_ in BLOCKING:
        condition = find(seen.cluster.status.conditions, type_)
        bad = "True" if type_ is ClusterConditionType.REPLICA_FAILURE else "False"
        if condition is not None and condition.status == bad and condition.message:
            return f"RayCluster {seen.cluster.metadata.name}: {condition.message}"
    return f"waiting for RayCluster {seen.cluster.metadata.name} to be ready"


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
    if not left:
        return step
    old = step.plan.wait or Wait("a deadline")
    timer = Wait(old.why, retry_in=max(min(left), timedelta(milliseconds=100)))
    return Step(Plan(step.plan.stages, timer, step.plan.notes), step.status, step.otherwise)
