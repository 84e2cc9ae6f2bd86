"""Deletion. Children go by their owner references; only a cluster whose tables live in Redis has
to be held until they are removed, and never longer than its timeout, whatever fails (C70)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from manta.api.batch import JOB_COMPLETE, JOB_FAILED, JOB_FAILURE_TARGET, Job
from manta.api.conditions import is_true
from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import JOBS
from manta.api.times import parse_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.worker_group import deletions
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.redis_cleanup import build_cleanup_job
from manta.reconcile.actions import Create, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.traits import (
    StorageBackend,
    ray_container_of,
    storage_backend,
    storage_namespace,
)

DEFAULT_TIMEOUT: Final = timedelta(seconds=300)
HEAD_RETRY: Final = timedelta(seconds=10)
JOB_RETRY: Final = timedelta(seconds=10)


def plan_finalizer(seen: ClusterSnapshot) -> Plan:
    """Hold the object before anything exists that would need cleaning."""
    meta = seen.cluster.metadata
    if not _cleans_redis(seen) or names.FINALIZER_REDIS_CLEANUP in meta.finalizers:
        return NOTHING
    finalizers = [*meta.finalizers, names.FINALIZER_REDIS_CLEANUP]
    patch = _finalizers(seen, finalizers, Cause.ADD_FINALIZER, "Redis has to be cleaned at the end")
    return do(patch, wait=Wait("the finalizer is set before anything is created"))


def plan_deletion(seen: ClusterSnapshot) -> Plan:
    if not seen.is_being_deleted:
        return NOTHING
    if names.FINALIZER_REDIS_CLEANUP not in seen.cluster.metadata.finalizers:
        return Plan(wait=Wait("the cluster is being deleted; its children go with it"))
    if _time_left(seen) <= timedelta(0):
        why = "Redis could not be cleaned in time; the cluster is let go, its tables may remain"
        return _release(seen, Cause.CLEANUP_TIMED_OUT, why)
    if not _cleans_redis(seen):
        # The option was switched off since: nobody knows any more what to clean (C71).
        return _release(seen, Cause.CLEANUP_FINISHED, "fault tolerance was switched off")
    return _remove_pods(seen) or _clean(seen)


def _cleans_redis(seen: ClusterSnapshot) -> bool:
    enabled = seen.settings.gcs_ft_redis_cleanup
    return enabled and storage_backend(seen.cluster) is StorageBackend.REDIS


def _remove_pods(seen: ClusterSnapshot) -> Plan | None:
    """Head first: while it lives, its GCS goes on writing what the Job removes (C72)."""
    why = "the cluster is being deleted"
    heads = do(*deletions(seen.head_pods, Cause.CLUSTER_DELETED, why))
    workers = do(*deletions(seen.worker_pods, Cause.CLUSTER_DELETED, why))
    if seen.head_pods:
        wait = Wait("the head Pod must be gone before Redis is cleaned", _soon(seen, HEAD_RETRY))
        return Plan(heads.stages + workers.stages, wait)
    return Plan(workers.stages, Wait(why, _soon(seen, HEAD_RETRY))) if workers.stages else None


def _clean(seen: ClusterSnapshot) -> Plan:
    ours = [job for job in seen.cleanup_jobs if _is_ours(seen, job)]
    if any(_has(job, JOB_COMPLETE) for job in ours):
        return _release(seen, Cause.CLEANUP_FINISHED, "the cleanup Job has finished")
    if any(_has(job, JOB_FAILED, JOB_FAILURE_TARGET) for job in ours):
        space = storage_namespace(seen.cluster)
        why = (
            f"the cleanup Job failed: remove what Redis holds under the namespace {space} yourself"
        )
        return _release(seen, Cause.CLEANUP_FAILED, why)
    if ours:
        return Plan(wait=Wait("the cleanup Job is running", _soon(seen, JOB_RETRY)))
    if not ray_container_of(seen.cluster.spec.head_group_spec.template):
        return _release(seen, Cause.CLEANUP_FINISHED, "the head has no container to clean with")
    job = build_cleanup_job(seen.cluster, seen.settings)
    wait = Wait("the cleanup Job was created", _soon(seen, JOB_RETRY))
    return do(Create(JOBS, job, Cause.REDIS_CLEANUP), wait=wait)


def _is_ours(seen: ClusterSnapshot, job: Job) -> bool:
    owner = job.metadata.controller
    return owner is not None and owner.uid == seen.cluster.metadata.uid


def _has(job: Job, *ends: str) -> bool:
    return any(is_true(job.status.conditions, end) for end in ends)


def _release(seen: ClusterSnapshot, cause: Cause, why: str) -> Plan:
    kept = [one for one in seen.cluster.metadata.finalizers if one != names.FINALIZER_REDIS_CLEANUP]
    return do(_finalizers(seen, kept, cause, why), wait=Wait(why))


def _finalizers(seen: ClusterSnapshot, finalizers: list[str], cause: Cause, why: str) -> Patch:
    meta = seen.cluster.metadata
    return Patch(
        RAY_CLUSTERS,
        meta.key,
        {"metadata": {"finalizers": finalizers}},
        cause,
        why,
        uid=meta.uid,
        # A list is replaced as a whole: only right for the list that was seen.
        resource_version=meta.resource_version,
    )


def _time_left(seen: ClusterSnapshot) -> timedelta:
    text = seen.cluster.metadata.annotations.get(names.ANNOTATION_FT_DELETION_TIMEOUT, "")
    seconds = parse_count(text)
    timeout = timedelta(seconds=seconds) if seconds else DEFAULT_TIMEOUT
    since = parse_time(seen.cluster.metadata.deletion_timestamp or "")
    return since + timeout - seen.now


def _soon(seen: ClusterSnapshot, at_most: timedelta) -> timedelta:
    """Come back for the deadline, if it is nearer."""
    return min(at_most, _time_left(seen))
