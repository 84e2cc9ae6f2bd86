"""The Pods of the worker groups.

In a group: if it is suspended, all Pods are deleted. Failed Pods are deleted first and alone, so that a
crash loop cannot create Pods faster than they are deleted. Pods that the autoscaler names are always
deleted. Then the group grows or shrinks to its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import WorkerGroupSpec
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import has_further_hosts, may_choose_pods, still_counts
from manta.controllers.raycluster.planners.backoff import FailedPods, failed_pods
from manta.controllers.raycluster.planners.gang import worker_pod_builder
from manta.controllers.raycluster.planners.multi_host_group import plan_multi_host_group
from manta.controllers.raycluster.planners.pod_deletions import deletions
from manta.controllers.raycluster.planners.scale_down_order import in_scale_down_order
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.worker_pod import Slot
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import MAX_CREATIONS, NOTHING, Plan, Wait, do, merge
from manta.rules.pod_health import is_terminating
from manta.rules.scaling import desired_pods


def plan_worker_groups(snapshot: ClusterSnapshot) -> Plan:
    """All groups independently: a group that fails does not block others."""
    plans = [plan_removed_groups(snapshot)]
    left, share = MAX_CREATIONS, _share(snapshot)
    for group in snapshot.cluster.spec.worker_group_specs:
        pods = snapshot.workers_by_group.get(group.group_name, ())
        plan = _plan_group(snapshot, group, pods, min(left, share))
        created = sum(isinstance(action, Create) for action in plan.actions)
        left = max(left - created, 0)  # the last multi-host replica may exceed it
        plans.append(plan)
    return merge(plans)


def _share(snapshot: ClusterSnapshot) -> int:
    """How many Pods one group may create in this reconcile, so that each that grows gets some."""
    growing = sum(
        desired_pods(group) > len(snapshot.workers_by_group.get(group.group_name, ()))
        for group in snapshot.cluster.spec.worker_group_specs
    )
    return max(MAX_CREATIONS // max(growing, 1), 1)


def plan_removed_groups(snapshot: ClusterSnapshot) -> Plan:
    """Delete the Pods of groups that are no longer in the spec (C14)."""
    kept = {group.group_name for group in snapshot.cluster.spec.worker_group_specs}
    orphans = [
        pod
        for group, pods in snapshot.workers_by_group.items()
        if group not in kept
        for pod in pods
    ]
    return do(
        *deletions(orphans, Cause.GROUP_REMOVED, "its worker group was removed from the spec")
    )


def _plan_group(
    snapshot: ClusterSnapshot, group: WorkerGroupSpec, pods: Sequence[Pod], at_most: int
) -> Plan:
    if group.suspend:
        return do(*deletions(pods, Cause.GROUP_SUSPENDED, "its worker group is suspended"))
    if group.num_of_hosts > 1 and snapshot.settings.gates.ray_multi_host_indexing:
        return plan_multi_host_group(
            snapshot, group, pods, may_choose_pods=may_choose_pods(snapshot), at_most=at_most
        )
    failed = failed_pods(snapshot, pods)
    if failed.due:
        return plan_replacement(failed)
    asked_for = set(group.scale_strategy.workers_to_delete)
    named = [pod for pod in pods if pod.metadata.name in asked_for]
    kept = [pod for pod in pods if pod.metadata.name not in asked_for]
    going = do(*deletions(named, Cause.NAMED_FOR_DELETION, "named in workersToDelete"))
    return merge([going, _resize(snapshot, group, kept, named, at_most), backoff_wait(failed)])


def plan_replacement(failed: FailedPods, also: Iterable[Pod] = ()) -> Plan:
    """Delete failed Pods. The next reconcile creates the new ones."""
    actions = [
        Delete(PODS, one.pod.metadata.key, one.pod.metadata.uid, Cause.UNHEALTHY_WORKER, one.why)
        for one in failed.due
    ]
    return do(*actions, *deletions(also, Cause.UNHEALTHY_WORKER, "its replica has a failed host"))


def backoff_wait(failed: FailedPods) -> Plan:
    if not failed.waiting:
        return NOTHING
    return Plan(wait=Wait(f"{failed.waiting[0].why}; it is replaced later", failed.next_due))


def _resize(
    snapshot: ClusterSnapshot,
    group: WorkerGroupSpec,
    kept: Sequence[Pod],
    leaving: Sequence[Pod],
    at_most: int,
) -> Plan:
    wanted = desired_pods(group)
    living = [pod for pod in kept if not is_terminating(pod)]
    occupied = sum(still_counts(snapshot, pod) for pod in (*kept, *leaving))
    if wanted > occupied:
        missing = wanted - occupied
        plan = grow(snapshot, group, (*kept, *leaving), min(missing, at_most))
        return replace(plan, unfinished=more_to_create(group.group_name, missing - at_most))
    surplus = len(living) - wanted
    if surplus <= 0:
        return NOTHING
    if not may_choose_pods(snapshot):
        return Plan(notes=(f"{surplus} surplus Pods of {group.group_name} left to the autoscaler",))
    if has_further_hosts(living) and not snapshot.is_edited:
        return Plan(
            notes=(
                f"{group.group_name} has hosts, and an older CRD may prune numOfHosts: they stay",
            )
        )
    candidates = in_scale_down_order(living)[:surplus]
    return do(
        *deletions(candidates, Cause.SCALE_DOWN, f"group {group.group_name} wants {wanted} Pods")
    )


def more_to_create(group: str, count: int) -> str:
    """What the plan leaves for the next reconcile; empty when nothing is left."""
    return f"{count} more Pods of {group} are created after these" if count > 0 else ""


def grow(
    snapshot: ClusterSnapshot, group: WorkerGroupSpec, pods: Sequence[Pod], missing: int
) -> Plan:
    builder = worker_pod_builder(snapshot, group)
    indexed = snapshot.settings.gates.ray_multi_host_indexing
    creations = []
    for index in free_indexes(pods, missing):
        suffix = snapshot.suffix("worker", group.group_name, index)
        slot = Slot(suffix, replica_index=index if indexed else None)
        creations.append(Create(PODS, builder.pod(slot), Cause.SCALE_UP))
    return do(*creations)


def free_indexes(pods: Iterable[Pod], count: int) -> list[int]:
    """The lowest replica indexes that no Pod has."""
    taken = {pod.metadata.labels.get(names.LABEL_REPLICA_INDEX) for pod in pods}
    free: list[int] = []
    index = 0
    while len(free) < count:
        if str(index) not in taken:
            free.append(index)
        index += 1
    return free
