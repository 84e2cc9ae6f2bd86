"""Suspending, Suspended, Retrying: delete the cluster and the submitter, then go on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from manta.api.conditions import Blockage
from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.ray.job import JobDeploymentStatus
from manta.api.resources import JOBS
from manta.api.times import parse_time
from manta.controllers.rayjob.deletion_policies import delete_cluster
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.transitions import JobStep, reset, stay
from manta.reconcile.actions import Delete
from manta.reconcile.plan import Wait, do
from manta.rules.traits import redis_cleanup_timeout

GONE_WITHIN: Final = timedelta(seconds=60)
"""How long a cluster may take to go before the condition names it, beside the clean-up of its Redis; most take seconds."""


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
    found: list[tuple[ObjectMeta, Delete]] = []
    if snapshot.cluster is not None and not snapshot.borrows_cluster:
        found.append((snapshot.cluster.metadata, delete_cluster(snapshot, cause, why)))
    if snapshot.submitter is not None:
        meta = snapshot.submitter.metadata
        found.append((meta, Delete(JOBS, meta.key, meta.uid, Cause.DELETE_SUBMITTER, why)))
    if not found:
        return reset(then)
    deletions = [action for meta, action in found if meta.deletion_timestamp is None]
    stays = next((one for meta, action in found if (one := _stays(snapshot, action, meta))), None)
    plan = do(*deletions, wait=Wait("the cluster and the submitter to be gone"))
    wake_in = None if stays else GONE_WITHIN
    return replace(stay(replace(plan, blocked_by=stays)), wake_in=wake_in)


def _gone_within(meta: ObjectMeta) -> timedelta:
    cleans_redis = names.FINALIZER_REDIS_CLEANUP in meta.finalizers
    return GONE_WITHIN + (redis_cleanup_timeout(meta) if cleans_redis else timedelta(0))


def _stays(snapshot: JobSnapshot, deletion: Delete, meta: ObjectMeta) -> Blockage | None:
    """Why it is still there although it should be gone."""
    began = meta.deletion_timestamp
    if began is None or snapshot.now < parse_time(began) + _gone_within(meta):
        return None
    kept = ", ".join(meta.finalizers)
    cure = f": it is kept by the finalizers {kept}" if kept else ""
    why = (
        f"{deletion.resource.kind} {meta.name} is being deleted since {began} but does not go away"
    )
    return Blockage("StuckTerminating", why + cure)
