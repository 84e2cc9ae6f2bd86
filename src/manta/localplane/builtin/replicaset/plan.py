"""Which Pods of a ReplicaSet to create, adopt, let go and delete. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from manta.api.resources import PODS, REPLICA_SETS
from manta.localplane.builtin.owned_pods import (
    adopt,
    let_go,
    pod_from_template,
    selects,
    until_available,
)
from manta.localplane.builtin.replicaset.snapshot import ReplicaSetSnapshot
from manta.localplane.builtin.views import Pod, ReplicaSet
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING, Plan, do

PODS_PER_ROUND = 500


class Cause(StrEnum):
    CREATE = "too few Pods are active"
    SURPLUS = "too many Pods are active"
    ADOPT = "a Pod without a controller matches the selector"
    LET_GO = "a Pod no longer matches the selector"


def plan(seen: ReplicaSetSnapshot) -> Plan:
    if seen.replica_set.metadata.deletion_timestamp:
        return NOTHING
    adopted = [pod for pod in seen.orphans if pod.is_active and selects(seen.replica_set, pod)]
    claims = do(
        *(adopt(REPLICA_SETS, seen.replica_set.metadata, pod, Cause.ADOPT) for pod in adopted),
        *(let_go(pod, Cause.LET_GO) for pod in seen.pods if not selects(seen.replica_set, pod)),
    )
    replicas = (*seen.replicas, *adopted)
    return claims.then(_resize(seen.replica_set, replicas)).then(
        until_available(seen.replicas, seen.replica_set.spec.min_ready_seconds, seen.now)
    )


def _resize(replica_set: ReplicaSet, replicas: Sequence[Pod]) -> Plan:
    missing = replica_set.wanted - len(replicas)
    if missing > 0:
        pods = [_pod_of(replica_set) for _ in range(min(missing, PODS_PER_ROUND))]
        return do(*(Create(PODS, pod, Cause.CREATE) for pod in pods))
    surplus = sorted(replicas, key=_usefulness)[: max(0, -missing)]
    return do(*(Delete(PODS, pod.metadata.key, pod.metadata.uid, Cause.SURPLUS) for pod in surplus))


def _usefulness(pod: Pod) -> tuple[bool, bool, bool, tuple[int, ...]]:
    """Unbound, then not running, then not ready; of equals the youngest goes first."""
    age = tuple(-ord(letter) for letter in pod.metadata.creation_timestamp)
    return bool(pod.spec.node_name), pod.status.phase == "Running", pod.is_ready, age


def _pod_of(replica_set: ReplicaSet) -> dict[str, Any]:
    meta = replica_set.metadata
    return pod_from_template(
        REPLICA_SETS, meta, replica_set.spec.template, generateName=f"{meta.name}-"
    )
