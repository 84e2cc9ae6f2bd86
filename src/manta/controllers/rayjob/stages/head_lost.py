"""A lost head loses the job: the attempt fails, and the job is never run again silently (C56)."""

from __future__ import annotations

from manta.api.conditions import is_true
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.job import JobFailedReason, SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import JOBS
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.transitions import JobStep, fail
from manta.reconcile.actions import Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.traits import keeps_job_records


def head_lost(snapshot: JobSnapshot) -> JobStep | None:
    """Fail the attempt if the head that had the job is gone; None if it is not."""
    if snapshot.cluster is None:
        why = f"RayCluster {snapshot.status.ray_cluster_name} is gone, and the job with it"
        return fail(snapshot, JobFailedReason.APP_FAILED, why, delete_submitter(snapshot, why))
    if snapshot.submitted_to_cluster not in ("", snapshot.cluster.metadata.uid):
        why = f"RayCluster {snapshot.status.ray_cluster_name} was created again: the job ended with the one before"
        return fail(snapshot, JobFailedReason.APP_FAILED, why, delete_submitter(snapshot, why))
    if snapshot.mode is SubmissionMode.SIDECAR and snapshot.head_pod is None:
        why = "Ray head pod not found."  # it is not created again, even with GCS fault tolerance
    elif keeps_job_records(snapshot.cluster):
        return None  # the record of the job survives the head: the dashboard reports it
    elif not snapshot.submitted_to or snapshot.submitted_to == snapshot.head:
        return None
    else:
        why = f"the Ray head that ran the job ({snapshot.submitted_to.partition('/')[0]}) is gone"
    return fail(snapshot, JobFailedReason.APP_FAILED, why, delete_submitter(snapshot, why))


def delete_submitter(snapshot: JobSnapshot, why: str) -> Plan:
    """A submitter that still tries would submit the job to the next head, also that of a new cluster of the same
    name."""
    if snapshot.mode is SubmissionMode.SIDECAR and snapshot.cluster is not None:
        return _suspend_sidecar_cluster(snapshot.cluster, why)
    if snapshot.submitter is None or snapshot.submitter.finished is not None:
        return NOTHING
    meta = snapshot.submitter.metadata
    return do(Delete(JOBS, meta.key, meta.uid, Cause.HEAD_LOST, why))


def _suspend_sidecar_cluster(cluster: RayCluster, why: str) -> Plan:
    """Keep the cluster, for inspection, from creating a second head with a second submitter.

    A provisioned cluster creates none in this mode; one that is not provisioned yet is suspended.
    """
    if is_true(cluster.status.conditions, ClusterConditionType.PROVISIONED):
        return NOTHING
    meta, body = cluster.metadata, {"spec": {"suspend": True}}
    return do(Patch(RAY_CLUSTERS, meta.key, body, Cause.SIDECAR_LOST, why, uid=meta.uid))
