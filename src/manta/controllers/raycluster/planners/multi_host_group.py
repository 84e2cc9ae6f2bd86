"""Worker groups whose replicas span several hosts: a replica lives and dies as one (C92)."""

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
from manta.controllers.raycluster.planners.backoff import rebuilt_at, sick_pods
from manta.controllers.raycluster.planners.gang import worker_mold
from manta.controllers.raycluster.planners.joining import earliest, join
from manta.controllers.raycluster.planners.terminating import still_counts
from manta.controllers.raycluster.planners.victims import usefulness
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.worker_pod import Slot, WorkerPodMold
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.pod_health import is_terminating
from manta.rules.scaling import desired_replicas, hosts

Replica = tuple[Pod, ...]


def plan_multi_host_group(
    seen: ClusterSnapshot,
    group: WorkerGroupSpec,
    pods: Sequence[Pod],
    *,
    may_choose_victims: bool,
    at_most: int,
) -> Plan:
    """`at_most`: Pods to create in this reconcile; a replica that is begun is created whole."""
    present = [pod for pod in pods if still_counts(seen, pod)]
    replicas = _by_replica(present, hosts(group))
    broken = _plan_broken(seen, group, replicas)
    if broken.stages:
        return broken
    asked_for = set(group.scale_strategy.workers_to_delete)
    named = {name: one for name, one in replicas.items() if asked_for & _names(one)}
    kept = {name: one for name, one in replicas.items() if name not in named}
    going = do(*_delete_replicas(named, Cause.NAMED_FOR_DELETION, "named in workersToDelete"))
    resize = _resize(
        seen, group, kept, len(named), may_choose_victims=may_choose_victims, at_most=at_most
    )
    return join([going, resize, broken])


def _by_replica(pods: Sequence[Pod], size: int) -> Mapping[str, Replica]:
    """Pods by replica. Those without the label (made by an older operator) are taken in the order
    of their age, as many as make one replica, so that nothing is made twice (C93)."""
    replicas: dict[str, list[Pod]] = {}
    for pod in pods:
        name = pod.metadata.labels.get(names.LABEL_REPLICA_NAME, "")
        replicas.setdefault(name, []).append(pod)
    older = sorted(replicas.pop("", []), key=lambda pod: pod.metadata.creation_timestamp)
    for start in range(0, len(older), size):
        replicas[f"{older[start].metadata.name} and its fellows"] = older[start : start + size]
    return {name: tuple(members) for name, members in replicas.items()}


def _is_leaving(replica: Replica) -> bool:
    return any(is_terminating(pod) for pod in replica)


def _names(replica: Replica) -> set[str]:
    return {pod.metadata.name for pod in replica}


def _plan_broken(
    seen: ClusterSnapshot, group: WorkerGroupSpec, replicas: Mapping[str, Replica]
) -> Plan:
    """Replicas that lack a host, or have one beyond repair, go as a whole and before all else."""
    actions: list[Delete] = []
    waits: list[Wait] = []
    for name, replica in replicas.items():
        sick = sick_pods(seen, replica)
        lacks = f"replica {name} is not whole: it has {len(replica)} of {hosts(group)} hosts"
        if sick.due:
            actions += _delete(replica, Cause.UNHEALTHY_WORKER, sick.due[0].why)
        elif _is_leaving(replica) or len(replica) > hosts(group):
            actions += _delete(replica, Cause.INCOMPLETE_REPLICA, lacks)
        elif len(replica) < hosts(group):
            left = rebuilt_at(seen, replica) - seen.now
            if left <= timedelta(0):
                actions += _delete(replica, Cause.INCOMPLETE_REPLICA, lacks)
            else:
                waits.append(Wait(f"{lacks}; it is made anew later", left))
        elif sick.waiting:
            waits.append(Wait(f"{sick.waiting[0].why}; it is replaced later", sick.next_due))
    return do(*actions, wait=earliest(waits))


def _resize(
    seen: ClusterSnapshot,
    group: WorkerGroupSpec,
    kept: Mapping[str, Replica],
    leaving: int,
    *,
    may_choose_victims: bool,
    at_most: int,
) -> Plan:
    wanted = desired_replicas(group)
    whole = {name: one for name, one in kept.items() if not _is_leaving(one)}
    present = len(kept) + leaving
    if wanted > present:
        missing = wanted - present
        fitting = min(missing, -(-at_most // hosts(group)))
        plan = _grow(seen, group, kept, fitting)
        left = missing - fitting
        more = f"{left} more replicas of {group.group_name} are created after these"
        return replace(plan, unfinished=more if left > 0 else "")
    surplus = len(whole) - wanted
    if surplus <= 0:
        return NOTHING
    if not may_choose_victims:
        note = f"{surplus} surplus replicas of {group.group_name} left to the autoscaler"
        return Plan(notes=(note,))
    victims = dict(sorted(whole.items(), key=_departure)[:surplus])
    why = f"group {group.group_name} wants {wanted} replicas"
    return do(*_delete_replicas(victims, Cause.SCALE_DOWN, why))


def _departure(item: tuple[str, Replica]) -> tuple[int, int, str]:
    """The least useful replica first, then the highest index."""
    name, replica = item
    return min(usefulness(pod) for pod in replica), -_index(replica), name


def _index(replica: Replica) -> int:
    text = replica[0].metadata.labels.get(names.LABEL_REPLICA_INDEX, "")
    index = parse_count(text)
    return -1 if index is None else index


def _grow(
    seen: ClusterSnapshot, group: WorkerGroupSpec, kept: Mapping[str, Replica], missing: int
) -> Plan:
    mold = worker_mold(seen, group)
    taken = {_index(replica) for replica in kept.values()}
    creations: list[Create] = []
    index = 0
    while missing:
        if index not in taken:
            creations += _replica(seen, group, mold, index)
            missing -= 1
        index += 1
    return do(*creations)


def _replica(
    seen: ClusterSnapshot, group: WorkerGroupSpec, mold: WorkerPodMold, index: int
) -> list[Create]:
    name = f"{group.group_name}-{seen.suffix('replica', group.group_name, index)}"
    slots = [
        Slot(seen.suffix("worker", group.group_name, index, host), index, name, host)
        for host in range(hosts(group))
    ]
    return [Create(PODS, mold.pod(slot), Cause.SCALE_UP) for slot in slots]


def _delete_replicas(replicas: Mapping[str, Replica], cause: Cause, why: str) -> list[Delete]:
    return [delete for replica in replicas.values() for delete in _delete(replica, cause, why)]


def _delete(replica: Replica, cause: Cause, why: str) -> list[Delete]:
    return [
        Delete(PODS, pod.metadata.key, pod.metadata.uid, cause, why)
        for pod in replica
        if not is_terminating(pod)
    ]
