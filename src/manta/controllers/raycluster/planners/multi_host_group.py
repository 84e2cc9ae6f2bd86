"""Worker groups with several hosts per replica, which are created and deleted together (C92)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from manta.api.core import Pod
from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.api.ray.cluster import WorkerGroupSpec
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import by_replica, still_counts
from manta.controllers.raycluster.planners.backoff import failed_pods, recreate_at
from manta.controllers.raycluster.planners.gang import worker_pod_builder
from manta.controllers.raycluster.planners.pod_deletions import deletions
from manta.controllers.raycluster.planners.scale_down_order import readiness_rank
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.worker_pod import Slot, WorkerPodBuilder
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING, Plan, Wait, do, earliest_wait, merge
from manta.rules.pod_health import is_terminating
from manta.rules.scaling import desired_replicas, hosts

Replica = tuple[Pod, ...]


def plan_multi_host_group(
    snapshot: ClusterSnapshot,
    group: WorkerGroupSpec,
    pods: Sequence[Pod],
    *,
    may_choose_pods: bool,
    at_most: int,
) -> Plan:
    """`at_most`: the limit of new Pods in this reconcile, rounded up to whole replicas."""
    present = [pod for pod in pods if still_counts(snapshot, pod)]
    replicas = by_replica(present, hosts(group))
    broken = plan_broken(snapshot, replicas, hosts(group))
    if broken.stages:
        return broken
    to_delete = set(group.scale_strategy.workers_to_delete)
    named = {name: one for name, one in replicas.items() if to_delete & _names(one)}
    kept = {name: one for name, one in replicas.items() if name not in named}
    scaled_down = do(*_delete_replicas(named, Cause.NAMED_FOR_DELETION, "named in workersToDelete"))
    resize = _resize(
        snapshot, group, kept, len(named), may_choose_pods=may_choose_pods, at_most=at_most
    )
    return merge([scaled_down, resize, broken])


def _is_terminating(replica: Replica) -> bool:
    return any(is_terminating(pod) for pod in replica)


def _names(replica: Replica) -> set[str]:
    return {pod.metadata.name for pod in replica}


def plan_broken(snapshot: ClusterSnapshot, replicas: Mapping[str, Replica], size: int) -> Plan:
    """First delete all hosts of replicas with a missing or failed host."""
    actions: list[Delete] = []
    waits: list[Wait] = []
    for name, replica in replicas.items():
        failed = failed_pods(snapshot, replica)
        incomplete = f"replica {name} is incomplete: it has {len(replica)} of {size} hosts"
        if failed.due:
            actions += deletions(replica, Cause.UNHEALTHY_WORKER, failed.due[0].why)
        elif _is_terminating(replica) or len(replica) > size:
            actions += deletions(replica, Cause.INCOMPLETE_REPLICA, incomplete)
        elif len(replica) < size:
            left = recreate_at(snapshot, replica) - snapshot.now
            if left <= timedelta(0):
                actions += deletions(replica, Cause.INCOMPLETE_REPLICA, incomplete)
            else:
                waits.append(Wait(f"{incomplete}; it is created again later", left))
        elif failed.waiting:
            waits.append(Wait(f"{failed.waiting[0].why}; it is replaced later", failed.next_due))
    return do(*actions, wait=earliest_wait(waits))


def _resize(
    snapshot: ClusterSnapshot,
    group: WorkerGroupSpec,
    kept: Mapping[str, Replica],
    terminating: int,
    *,
    may_choose_pods: bool,
    at_most: int,
) -> Plan:
    wanted = desired_replicas(group)
    complete = {name: one for name, one in kept.items() if not _is_terminating(one)}
    present = len(kept) + terminating
    if wanted > present:
        missing = wanted - present
        allowed = min(missing, -(-at_most // hosts(group)))
        pods = [pod for replica in kept.values() for pod in replica]
        plan = grow_replicas(snapshot, group, pods, allowed)
        left = missing - allowed
        more = f"{left} more replicas of {group.group_name} are created after these"
        return replace(plan, unfinished=more if left > 0 else "")
    surplus = len(complete) - wanted
    if surplus <= 0:
        return NOTHING
    if not may_choose_pods:
        note = f"{surplus} surplus replicas of {group.group_name} left to the autoscaler"
        return Plan(notes=(note,))
    candidates = dict(sorted(complete.items(), key=_scale_down_key)[:surplus])
    why = f"group {group.group_name} wants {wanted} replicas"
    return do(*_delete_replicas(candidates, Cause.SCALE_DOWN, why))


def _scale_down_key(item: tuple[str, Replica]) -> tuple[int, int, str]:
    """The least useful replica first, then the highest index."""
    name, replica = item
    return min(readiness_rank(pod) for pod in replica), -_index(replica), name


def _index(replica: Replica) -> int:
    text = replica[0].metadata.labels.get(names.LABEL_REPLICA_INDEX, "")
    index = parse_count(text)
    return -1 if index is None else index


def grow_replicas(
    snapshot: ClusterSnapshot, group: WorkerGroupSpec, kept: Sequence[Pod], missing: int
) -> Plan:
    """Create replicas with the lowest indexes that no Pod has."""
    builder = worker_pod_builder(snapshot, group)
    taken = {_index((pod,)) for pod in kept}
    creations: list[Create] = []
    index = 0
    while missing:
        if index not in taken:
            creations += _replica(snapshot, group, builder, index)
            missing -= 1
        index += 1
    return do(*creations)


def _replica(
    snapshot: ClusterSnapshot, group: WorkerGroupSpec, builder: WorkerPodBuilder, index: int
) -> list[Create]:
    name = f"{group.group_name}-{snapshot.suffix('replica', group.group_name, index)}"
    slots = [
        Slot(snapshot.suffix("worker", group.group_name, index, host), index, name, host)
        for host in range(hosts(group))
    ]
    return [Create(PODS, builder.pod(slot), Cause.SCALE_UP) for slot in slots]


def _delete_replicas(replicas: Mapping[str, Replica], cause: Cause, why: str) -> list[Delete]:
    return [delete for replica in replicas.values() for delete in deletions(replica, cause, why)]
