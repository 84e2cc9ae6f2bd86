"""Suspending, Suspended, Retrying: delete the cluster and the submitter, then go on."""

from __future__ import annotations

from manta.api.meta import ObjectMeta
from manta.api.ray.job import JobDeploymentStatus
from manta.api.resources import JOBS
from manta.controllers.rayjob.deletion_policies import delete_cluster
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.transitions import JobStep, reset, stay
from manta.reconcile.actions import Action, Delete
from manta.reconcile.plan import Wait, do


def suspend(snapshot: JobSnapshot) -> JobStep:
    """Once begun, suspension is completed even if `spec.suspend` becomes false meanwhile."""
    why = "the RayJob is suspended"
    return _release(snapshot, Cause.SUSPENDED, why, JobDeploymentStatus.SUSPENDED)


def stay_suspended(snapshot: JobSnapshot) -> JobStep:
    return stay() if snapshot.spec.suspend else reset(JobDeploymentStatus.NEW)


def retry(snapshot: JobSnapshot) -> JobStep:
    return _release(snapshot, Cause.RETRY, "a new attempt begins", JobDeploymentStatus.NEW)


def _release(snapshot: JobSnapshot, cause: Cause, why: str, then: JobDeploymentStatus) -> JobStep:
    """Delete the own cluster and the submitter; move to the next stage when both are gone."""
    found: list[tuple[ObjectMeta, Action]] = []
    if snapshot.cluster is not None and not snapshot.borrows_cluster:
        found.append((snapshot.cluster.metadata, delete_cluster(snapshot, cause, why)))
    if snapshot.submitter is not None:
        meta = snapshot.submitter.metadata
        found.append((meta, Delete(JOBS, meta.key, meta.uid, Cause.DELETE_SUBMITTER, why)))
    if not found:
        return reset(then)
    deletions = [action for meta, action in found if meta.deletion_timestamp is None]
    return stay(do(*deletions, wait=Wait("the cluster and the submitter to be gone")))
