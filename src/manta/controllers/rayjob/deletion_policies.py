"""Deletion policies: what each one does, when it is done, and its Event.

A new policy needs its name in `api/ray/job.py`, and here a cause and a row in `POLICIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from manta.api.ray.job import DeletionPolicyType
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.reconcile.actions import Action, Delete, Patch
from manta.reconcile.causes import ActionCause, Reasons, deleted, updated


@dataclass(frozen=True, slots=True)
class Policy:
    actions: Callable[[JobSnapshot, str], tuple[Action, ...]]
    """The deletions for a snapshot, with the reason that they get."""
    is_done: Callable[[JobSnapshot], bool]


class Cause(ActionCause):
    DELETE_WORKERS = updated("RayCluster", "worker groups of RayCluster")
    DELETE_CLUSTER = deleted("RayCluster")
    DELETE_SELF = Reasons(
        "Delete",
        failed="FailedToDeleteRayJob",
        failed_note="Failed to delete RayJob {key}: {error}",
    )


def delete_cluster(snapshot: JobSnapshot, cause: ActionCause, why: str) -> Delete:
    assert snapshot.cluster is not None
    meta = snapshot.cluster.metadata
    return Delete(RAY_CLUSTERS, meta.key, meta.uid, cause, why)


def _delete_cluster(snapshot: JobSnapshot, why: str) -> tuple[Action, ...]:
    return (delete_cluster(snapshot, Cause.DELETE_CLUSTER, why),)


def _delete_self(snapshot: JobSnapshot, why: str) -> tuple[Action, ...]:
    meta = snapshot.job.metadata
    return (Delete(RAY_JOBS, meta.key, meta.uid, Cause.DELETE_SELF, why),)


def _suspend_workers(snapshot: JobSnapshot, why: str) -> tuple[Action, ...]:
    """A JSON patch, because a merge patch replaces whole lists of a custom resource."""
    assert snapshot.cluster is not None
    meta = snapshot.cluster.metadata
    patch = [
        {"op": "add", "path": f"/spec/workerGroupSpecs/{number}/suspend", "value": True}
        for number in range(len(snapshot.cluster.spec.worker_group_specs))
    ]
    cause, version = Cause.DELETE_WORKERS, meta.resource_version
    action = Patch(RAY_CLUSTERS, meta.key, patch, cause, why, kind="json", resource_version=version)
    return (action,)


def _is_cluster_gone(snapshot: JobSnapshot) -> bool:
    """A borrowed cluster counts as gone: this RayJob never deletes it."""
    cluster = snapshot.cluster
    gone = cluster is None or cluster.metadata.deletion_timestamp is not None
    return gone or snapshot.borrows_cluster


def _are_workers_gone(snapshot: JobSnapshot) -> bool:
    groups = snapshot.cluster.spec.worker_group_specs if snapshot.cluster else ()
    return _is_cluster_gone(snapshot) or all(group.suspend for group in groups)


POLICIES: Final[dict[DeletionPolicyType, Policy]] = {
    DeletionPolicyType.DELETE_NONE: Policy(actions=lambda *_: (), is_done=lambda _: True),
    DeletionPolicyType.DELETE_WORKERS: Policy(_suspend_workers, _are_workers_gone),
    DeletionPolicyType.DELETE_CLUSTER: Policy(_delete_cluster, _is_cluster_gone),
    DeletionPolicyType.DELETE_SELF: Policy(_delete_self, is_done=lambda _: False),
}
