"""Which Pods of a ReplicaSet to create, adopt, let go and delete. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from manta.api.resources import PODS, REPLICA_SETS
from manta.localplane.builtin.ownership import controlled_by
from manta.localplane.builtin.replicaset.snapshot import (
    ReplicaSetSnapshot,
    available_in,
    selects,
)
from manta.localplane.builtin.views import Pod, ReplicaSet, as_json
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do

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
        *(_adopt(seen.replica_set, pod) for pod in adopted),
        *(_let_go(pod) for pod in seen.pods if not selects(seen.replica_set, pod)),
    )
    replicas = (*seen.replicas, *adopted)
    return claims.then(_resize(seen.replica_set, replicas)).then(_wait_for_availability(seen))


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


def _wait_for_availability(seen: ReplicaSetSnapshot) -> Plan:
    seconds = seen.replica_set.spec.min_ready_seconds
    if not seconds:
        return NOTHING
    waits = [available_in(pod, seconds, seen.now) for pod in seen.replicas]
    pending = [wait for wait in waits if wait]
    return Plan(wait=Wait("ready Pods become available", min(pending))) if pending else NOTHING


def _adopt(replica_set: ReplicaSet, pod: Pod) -> Patch:
    owners = [
        *as_json(pod.metadata.owner_references),
        controlled_by(REPLICA_SETS, replica_set.metadata),
    ]
    return _own(pod, owners, Cause.ADOPT)


def _let_go(pod: Pod) -> Patch:
    owners = [one for one in pod.metadata.owner_references if not one.controller]
    return _own(pod, as_json(owners), Cause.LET_GO)


def _own(pod: Pod, owners: list[dict[str, Any]], cause: Cause) -> Patch:
    return Patch(
        PODS,
        pod.metadata.key,
        {"metadata": {"ownerReferences": owners or None}},
        cause,
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
    )


def _pod_of(replica_set: ReplicaSet) -> dict[str, Any]:
    template = replica_set.spec.template
    meta = template.get("metadata") or {}
    kept = {name: meta[name] for name in ("labels", "annotations", "finalizers") if meta.get(name)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{replica_set.metadata.name}-",
            "namespace": replica_set.metadata.namespace,
            **kept,
            "ownerReferences": [controlled_by(REPLICA_SETS, replica_set.metadata)],
        },
        "spec": template.get("spec") or {},
    }
