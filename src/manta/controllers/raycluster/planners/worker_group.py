"""The Pods of the worker groups: which to create, which to delete, and when neither.

The order within a group: a suspended group loses all its Pods; Pods beyond repair go first and
alone, so that a crash loop can never outrun its own cleanup; Pods that the autoscaler named go
always; then the group grows or shrinks to its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import WorkerGroupSpec
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.backoff import Sick, sick_pods
from manta.controllers.raycluster.planners.gang import worker_mold
from manta.controllers.raycluster.planners.joining import join
from manta.controllers.raycluster.planners.multi_host_group import plan_multi_host_group
from manta.controllers.raycluster.planners.terminating import still_counts
from manta.controllers.raycluster.planners.victims import in_order_of_departure
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.worker_pod import Slot
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import MAX_CREATIONS, NOTHING, Plan, Wait, do
from manta.rules.pod_health import is_terminating
from manta.rules.scaling import desired_pods
from manta.rules.traits import autoscaling


def plan_worker_groups(seen: ClusterSnapshot) -> Plan:
    """All groups side by side: one that is in trouble holds up no other."""
    plans = [_plan_removed_groups(seen)]
    left, share = MAX_CREATIONS, _share(seen)
    for group in seen.cluster.spec.worker_group_specs:
        pods = seen.workers_by_group.get(group.group_name, ())
        plan = _plan_group(seen, group, pods, min(left, share))
        created = sum(isinstance(action, Create) for action in plan.actions)
        left = max(left - created, 0)  # a multi-host replica is created whole, and may exceed it
        plans.append(plan)
    return join(plans)


def _share(seen: ClusterSnapshot) -> int:
    """How many Pods one group may create in this reconcile, so that each that grows gets some."""
    growing = sum(
        desired_pods(group) > len(seen.workers_by_group.get(group.group_name, ()))
        for group in seen.cluster.spec.worker_group_specs
    )
    return max(MAX_CREATIONS // max(growing, 1), 1)


def may_choose_victims(seen: ClusterSnapshot) -> bool:
    """With the autoscaler on, only it knows which workers are idle (C05)."""
    return not autoscaling(seen.cluster.spec) or seen.settings.random_pod_delete


def _plan_removed_groups(seen: ClusterSnapshot) -> Plan:
    """Pods of a group that is no longer in the spec have no one to look after them (C14)."""
    kept = {group.group_name for group in seen.cluster.spec.worker_group_specs}
    orphans = [
        pod for group, pods in seen.workers_by_group.items() if group not in kept for pod in pods
    ]
    return do(
        *deletions(orphans, Cause.GROUP_REMOVED, "its worker group was removed from the spec")
    )


def _plan_group(
    seen: ClusterSnapshot, group: WorkerGroupSpec, pods: Sequence[Pod], at_most: int
) -> Plan:
    if group.suspend:
        return do(*deletions(pods, Cause.GROUP_SUSPENDED, "its worker group is suspended"))
    if group.num_of_hosts > 1 and seen.settings.gates.ray_multi_host_indexing:
        return plan_multi_host_group(
            seen, group, pods, may_choose_victims=may_choose_victims(seen), at_most=at_most
        )
    sick = sick_pods(seen, pods)
    if sick.due:
        return plan_replacement(sick)
    asked_for = set(group.scale_strategy.workers_to_delete)
    named = [pod for pod in pods if pod.metadata.name in asked_for]
    kept = [pod for pod in pods if pod.metadata.name not in asked_for]
    going = do(*deletions(named, Cause.NAMED_FOR_DELETION, "named in workersToDelete"))
    return join([going, _resize(seen, group, kept, named, at_most), backoff_wait(sick)])


def plan_replacement(sick: Sick, also: Iterable[Pod] = ()) -> Plan:
    """Remove the failed; their successors come in the next round, when these are marked."""
    actions = [
        Delete(PODS, one.pod.metadata.key, one.pod.metadata.uid, Cause.UNHEALTHY_WORKER, one.why)
        for one in sick.due
    ]
    return do(*actions, *deletions(also, Cause.UNHEALTHY_WORKER, "its replica has a failed host"))


def backoff_wait(sick: Sick) -> Plan:
    if not sick.waiting:
        return NOTHING
    return Plan(wait=Wait(f"{sick.waiting[0].why}; it is replaced later", sick.next_due))


def _resize(
    seen: ClusterSnapshot,
    group: WorkerGroupSpec,
    kept: Sequence[Pod],
    leaving: Sequence[Pod],
    at_most: int,
) -> Plan:
    wanted = desired_pods(group)
    living = [pod for pod in kept if not is_terminating(pod)]
    occupied = sum(still_counts(seen, pod) for pod in (*kept, *leaving))
    if wanted > occupied:
        missing = wanted - occupied
        plan = _grow(seen, group, (*kept, *leaving), min(missing, at_most))
        return replace(plan, unfinished=more_to_create(group.group_name, missing - at_most))
    surplus = len(living) - wanted
    if surplus <= 0:
        return NOTHING
    if not may_choose_victims(seen):
        return Plan(notes=(f"{surplus} surplus Pods of {group.group_name} left to the autoscaler",))
    if has_further_hosts(living) and not seen.is_edited:
        return Plan(notes=(f"{group.group_name} has hosts that an older CRD hides: they stay",))
    victims = in_order_of_departure(living)[:surplus]
    return do(
        *deletions(victims, Cause.SCALE_DOWN, f"group {group.group_name} wants {wanted} Pods")
    )


def more_to_create(group: str, count: int) -> str:
    """What a plan leaves for the next ones; empty: nothing."""
    return f"{count} more Pods of {group} are created after these" if count > 0 else ""


def has_further_hosts(pods: Iterable[Pod]) -> bool:
    """Some are the second or a later host of a replica: the group had `numOfHosts`."""
    return any(pod.metadata.labels.get(names.LABEL_HOST_INDEX, "0") != "0" for pod in pods)


def awaits_fewer_hosts(seen: ClusterSnapshot) -> bool:
    """An edit took `numOfHosts` away, and Pods of those hosts are still there. As with a recreation,
    the generation does not count as observed before they are gone."""
    if not seen.is_edited or not may_choose_victims(seen):
        return False
    for group in seen.cluster.spec.worker_group_specs:
        pods = seen.workers_by_group.get(group.group_name, ())
        living = [pod for pod in pods if not is_terminating(pod)]
        is_single = group.num_of_hosts <= 1 and not group.suspend
        if is_single and len(living) > desired_pods(group) and has_further_hosts(living):
            return True
    return False


def _grow(seen: ClusterSnapshot, group: WorkerGroupSpec, pods: Sequence[Pod], missing: int) -> Plan:
    mold = worker_mold(seen, group)
    indexed = seen.settings.gates.ray_multi_host_indexing
    creations = []
    for index in free_indexes(pods, missing):
        suffix = seen.suffix("worker", group.group_name, index)
        slot = Slot(suffix, replica_index=index if indexed else None)
        creations.append(Create(PODS, mold.pod(slot), Cause.SCALE_UP))
    return do(*creations)


def free_indexes(pods: Iterable[Pod], count: int) -> list[int]:
    """The lowest replica indexes that no Pod bears."""
    taken = {pod.metadata.labels.get(names.LABEL_REPLICA_INDEX) for pod in pods}
    free: list[int] = []
    index = 0
    while len(free) < count:
        if str(index) not in taken:
            free.append(index)
        index += 1
    return free


def deletions(pods: Iterable[Pod], cause: StrEnum, why: str) -> list[Delete]:
    """One Delete for each Pod that is not on its way out already (C04)."""
    return [
        Delete(PODS, pod.metadata.key, pod.metadata.uid, cause, why)
        for pod in pods
        if not is_terminating(pod)
    ]
