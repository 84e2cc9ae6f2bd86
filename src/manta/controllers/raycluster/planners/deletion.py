"""Deletion. The garbage collector deletes the children. A finalizer holds a cluster with Redis until a
Job has cleaned Redis, but never longer than its timeout (C70)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from manta.api.batch import JOB_COMPLETE, JOB_FAILED, JOB_FAILURE_TARGET, Job
from manta.api.conditions import is_true
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import JOBS
from manta.api.times import parse_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import is_ours
from manta.controllers.raycluster.planners.pod_deletions import deletions
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.redis_cleanup import build_cleanup_job
from manta.reconcile.actions import Create
from manta.reconcile.finalizers import add_finalizer, remove_finalizer
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.traits import (
    StorageBackend,
    ray_container_of,
    redis_cleanup_timeout,
    storage_backend,
    storage_namespace,
)

HEAD_RETRY: Final = timedelta(seconds=10)
JOB_RETRY: Final = timedelta(seconds=10)


def plan_finalizer(snapshot: ClusterSnapshot) -> Plan:
    """Set the finalizer before anything exists that needs cleaning."""
    meta = snapshot.cluster.metadata
    if not _cleans_redis(snapshot) or names.FINALIZER_REDIS_CLEANUP in meta.finalizers:
        return NOTHING
    finalizer, why = names.FINALIZER_REDIS_CLEANUP, "Redis has to be cleaned at the end"
    patch = add_finalizer(RAY_CLUSTERS, meta, finalizer, Cause.ADD_FINALIZER, why)
    return do(patch, wait=Wait("the finalizer is set before anything is created"))


def plan_deletion(snapshot: ClusterSnapshot) -> Plan:
    if not snapshot.is_being_deleted:
        return NOTHING
    if names.FINALIZER_REDIS_CLEANUP not in snapshot.cluster.metadata.finalizers:
        return Plan(wait=Wait("the cluster is being deleted, with its children"))
    if _time_left(snapshot) <= timedelta(0):
        why = "Redis could not be cleaned in time; the cluster is deleted, its tables may remain"
        return _release(snapshot, Cause.CLEANUP_TIMED_OUT, why)
    if not _cleans_redis(snapshot):
        # The option was switched off: what to clean is no longer known (C71).
        return _release(snapshot, Cause.CLEANUP_FINISHED, "fault tolerance was switched off")
    return _remove_pods(snapshot) or _clean(snapshot)


def _cleans_redis(snapshot: ClusterSnapshot) -> bool:
    enabled = snapshot.settings.gcs_ft_redis_cleanup
    return enabled and storage_backend(snapshot.cluster) is StorageBackend.REDIS


def _remove_pods(snapshot: ClusterSnapshot) -> Plan | None:
    """Head first: while it runs, its GCS writes what the Job removes (C72)."""
    why = "the cluster is being deleted"
    heads = do(*deletions(snapshot.head_pods, Cause.CLUSTER_DELETED, why))
    workers = do(*deletions(snapshot.worker_pods, Cause.CLUSTER_DELETED, why))
    if snapshot.head_pods:
        wait = Wait(
            "the head Pod must be gone before Redis is cleaned", _soon(snapshot, HEAD_RETRY)
        )
        return Plan(heads.stages + workers.stages, wait)
    return Plan(workers.stages, Wait(why, _soon(snapshot, HEAD_RETRY))) if workers.stages else None


def _clean(snapshot: ClusterSnapshot) -> Plan:
    ours = [job for job in snapshot.cleanup_jobs if is_ours(snapshot, job)]
    if any(_has(job, JOB_COMPLETE) for job in ours):
        return _release(snapshot, Cause.CLEANUP_FINISHED, "the cleanup Job has finished")
    if any(_has(job, JOB_FAILED, JOB_FAILURE_TARGET) for job in ours):
        space = storage_namespace(snapshot.cluster)
        why = (
            f"the cleanup Job failed: remove what Redis holds under the namespace {space} yourself"
        )
        return _release(snapshot, Cause.CLEANUP_FAILED, why)
    if ours:
        return Plan(wait=Wait("the cleanup Job is running", _soon(snapshot, JOB_RETRY)))
    if not ray_container_of(snapshot.cluster.spec.head_group_spec.template):
        return _release(snapshot, Cause.CLEANUP_FINISHED, "the head has no container to clean with")
    job = build_cleanup_job(snapshot.cluster, snapshot.settings)
    wait = Wait("the cleanup Job was created", _soon(snapshot, JOB_RETRY))
    return do(Create(JOBS, job, Cause.REDIS_CLEANUP), wait=wait)


def _has(job: Job, *ends: str) -> bool:
    return any(is_true(job.status.conditions, end) for end in ends)


def _release(snapshot: ClusterSnapshot, cause: Cause, why: str) -> Plan:
    meta, finalizer = snapshot.cluster.metadata, names.FINALIZER_REDIS_CLEANUP
    return do(remove_finalizer(RAY_CLUSTERS, meta, finalizer, cause, why), wait=Wait(why))


def _time_left(snapshot: ClusterSnapshot) -> timedelta:
    meta = snapshot.cluster.metadata
    since = parse_time(meta.deletion_timestamp or "")
    return since + redis_cleanup_timeout(meta) - snapshot.now


def _soon(snapshot: ClusterSnapshot, at_most: timedelta) -> timedelta:
    """Wake up at the deadline, if it is earlier."""
    return min(at_most, _time_left(snapshot))
