"""Which Pods of a ReplicaSet to create, adopt, release and delete. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manta.api.resources import PODS, REPLICA_SETS
from manta.localplane.builtin.owned_pods import (
    adopt,
    pod_from_template,
    release,
    selects,
    until_available,
)
from manta.localplane.builtin.pod_events import POD_CREATED, POD_DELETED
from manta.localplane.builtin.replicaset.snapshot import ReplicaSetSnapshot
from manta.localplane.builtin.views import Pod, ReplicaSet
from manta.reconcile.actions import Create, Delete
from manta.reconcile.causes import ActionCause, Reasons
from manta.reconcile.plan import NOTHING, Plan, do

MAX_PODS_PER_RECONCILE = 500


class Cause(ActionCause):
    CREATE = POD_CREATED, "too few Pods are active"
    SURPLUS = POD_DELETED, "too many Pods are active"
    ADOPT = Reasons("Adopt"), "a Pod without a controller matches the selector"
    RELEASE = Reasons("Release"), "a Pod no longer matches the selector"


def plan(snapshot: ReplicaSetSnapshot) -> Plan:
    if snapshot.replica_set.metadata.deletion_timestamp:
        return NOTHING
    adopted = [
        pod for pod in snapshot.orphans if pod.is_active and selects(snapshot.replica_set, pod)
    ]
    claims = do(
        *(adopt(REPLICA_SETS, snapshot.replica_set.metadata, pod, Cause.ADOPT) for pod in adopted),
        *(
            release(pod, Cause.RELEASE)
            for pod in snapshot.pods
            if not selects(snapshot.replica_set, pod)
        ),
    )
    replicas = (*snapshot.replicas, *adopted)
    return claims.then(_resize(snapshot.replica_set, replicas)).then(
        until_available(
            snapshot.replicas, snapshot.replica_set.spec.min_ready_seconds, snapshot.now
        )
    )


def _resize(replica_set: ReplicaSet, replicas: Sequence[Pod]) -> Plan:
    missing = replica_set.wanted - len(replicas)
    if missing > 0:
        pods = [_pod_of(replica_set) for _ in range(min(missing, MAX_PODS_PER_RECONCILE))]
        return do(*(Create(PODS, pod, Cause.CREATE) for pod in pods))
    surplus = sorted(replicas, key=_usefulness)[: max(0, -missing)]
    return do(*(Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.SURPLUS) for pod in surplus))


def _usefulness(pod: Pod) -> tuple[bool, bool, bool, tuple[int, ...]]:
    """Unbound, then not running, then not ready; of equals the youngest is deleted first."""
    age = tuple(-ord(letter) for letter in pod.metadata.creation_timestamp)
    return bool(pod.spec.node_name), pod.status.phase == "Running", pod.is_ready, age


def _pod_of(replica_set: ReplicaSet) -> dict[str, Any]:
    meta = replica_set.metadata
    return pod_from_template(
        REPLICA_SETS, meta, replica_set.spec.template, generateName=f"{meta.name}-"
    )
