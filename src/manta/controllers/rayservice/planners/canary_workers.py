"""The workers of both clusters during a canary: the new cluster grows, the old one shrinks, or grows again.

The old cluster shrinks in this order, so that no request is lost: Serve runs fewer replicas, the workers that have
none left leave the Service, and only then are they deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import WorkerGroupSpec
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.canary import (
    canary_obstacle,
    full_sizes,
    pods_behind_service,
    progress,
    serve_capacity,
    takes_part_in_canary,
    worker_groups,
)
from manta.controllers.rayservice.facts.serve import can_submit, desired_serve, is_submitted
from manta.controllers.rayservice.snapshot import ClusterView, DashboardReply, ServiceSnapshot
from manta.manifests.canary_cluster import (
    bounds,
    full_bounds,
    recorded_sizes,
    resize_operations,
    sizes_text,
)
from manta.manifests.serve_services import serve_service_name
from manta.reconcile.actions import Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.canary import Group, grown, restored, shrunk
from manta.rules.pod_health import is_terminating
from manta.rules.traits import autoscaling

SETTLING = timedelta(seconds=5)
"""How long Serve and the proxies of nodes may take to follow a change."""
MAX_IDLE_WAIT = timedelta(seconds=30)
"""How long to wait until Serve has emptied a worker. Serve may spread what is left: then any worker goes."""


def record_size(snapshot: ServiceSnapshot, active: ClusterView) -> Plan:
    """With an autoscaler, record the size at the beginning, and let the autoscaler not exceed it: it changes
    the replicas as soon as Serve needs fewer."""
    if takes_part_in_canary(active) or not autoscaling(active.cluster.spec):
        return NOTHING
    counts = {name: one.replicas for name, one in full_sizes(snapshot, active).items()}
    return _resize(snapshot, active, counts, {}, "a canary begins")


# ── the new cluster ──────────────────────────────────────────────────────────────────────


def grow_pending(
    snapshot: ServiceSnapshot, pending: ClusterView, groups: tuple[Group, ...], weight: int
) -> Plan:
    counts = {one.name: grown(one, weight, snapshot.canary_options) for one in groups}
    if all(counts[one.name] == one.new for one in groups):
        return NOTHING
    return _resize(snapshot, pending, counts, {}, f"the canary is at {weight} %")


def grown_capacity(snapshot: ServiceSnapshot, groups: tuple[Group, ...], weight: int) -> int | None:
    """The target capacity of the new cluster once it is grown."""
    options = snapshot.canary_options
    after = [replace(one, new=grown(one, weight, options)) for one in groups]
    return serve_capacity(after, of_new=True)


# ── the old cluster ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Shrinking:
    capacity: int | None
    """The target capacity of Serve."""
    is_due: bool = False
    leaving: frozenset[str] = frozenset()
    """UIDs of the Pods that must take no more requests."""
    plan: Plan = NOTHING
    wake_in: timedelta | None = None


def shrink_active(
    snapshot: ServiceSnapshot, active: ClusterView, groups: tuple[Group, ...], weight: int
) -> Shrinking:
    """Shrink by what the new cluster serves now."""
    going = frozenset(one.metadata.uid for one in _named_for_deletion(active))
    now = serve_capacity(groups, of_new=False)
    counts = {one.name: shrunk(one, weight) for one in groups}
    is_due = any(counts[one.name] < one.old for one in groups)
    if not is_due or not _new_serves(snapshot, groups):
        return Shrinking(now, is_due, going)
    after = serve_capacity([replace(one, old=counts[one.name]) for one in groups], of_new=False)
    desired = desired_serve(snapshot, active, after)
    if desired.config and can_submit(active):
        if not is_submitted(active, desired):
            return Shrinking(after, is_due, going)
        left = _settling_left(snapshot, active, groups, counts)
        if left > timedelta(0):
            return Shrinking(after, is_due, going, wake_in=left)
    return _delete_workers(snapshot, active, groups, counts, Shrinking(after, is_due, going))


def _new_serves(snapshot: ServiceSnapshot, groups: tuple[Group, ...]) -> bool:
    _, behind = pods_behind_service(snapshot)
    return (
        behind > 0
        and not canary_obstacle(snapshot)
        and all(one.new_ready >= one.new for one in groups)
    )


def _settling_left(
    snapshot: ServiceSnapshot,
    active: ClusterView,
    groups: tuple[Group, ...],
    counts: Mapping[str, int],
) -> timedelta:
    """How long to wait after Serve got its new capacity: until it has emptied enough workers."""
    moment = parse_optional_time(active.submission.submitted_time if active.submission else None)
    if moment is None:
        return timedelta(0)
    idle = all(
        sum(_is_idle(active, pod) for pod in _workers(active, one.name))
        >= one.old - counts[one.name]
        for one in groups
    )
    return moment + (SETTLING if idle else MAX_IDLE_WAIT) - snapshot.now


def _delete_workers(
    snapshot: ServiceSnapshot,
    active: ClusterView,
    groups: tuple[Group, ...],
    counts: Mapping[str, int],
    so_far: Shrinking,
) -> Shrinking:
    """Take the workers out of the Service, then name them for deletion. An autoscaler chooses its own."""
    why = "the new cluster serves what they served"
    if autoscaling(active.cluster.spec):
        limits = {one.name: max(counts[one.name], min(one.old, one.old_held)) for one in groups}
        is_smaller = any(limits[one.name] < one.old for one in groups)
        is_due = is_smaller or _is_held_up(active, counts)
        plan = _resize(snapshot, active, limits, {}, why, least=counts) if is_due else NOTHING
        return replace(so_far, plan=plan, is_due=is_smaller)
    by_name = {one.group_name: one for one in active.cluster.spec.worker_group_specs}
    leaving = {
        one.name: _to_leave(active, by_name[one.name], one.old - counts[one.name])
        for one in groups
        if one.name in by_name
    }
    pods = [pod for group in leaving.values() for pod in group]
    so_far = replace(so_far, leaving=so_far.leaving | {pod.metadata.uid for pod in pods})
    behind = snapshot.endpoints.get(serve_service_name(snapshot.service), frozenset())
    if any(pod.metadata.uid in behind for pod in pods):
        return so_far
    names_ = {group: [pod.metadata.name for pod in found] for group, found in leaving.items()}
    return replace(so_far, plan=_resize(snapshot, active, counts, names_, why))


def _is_held_up(active: ClusterView, counts: Mapping[str, int]) -> bool:
    """Whether `minReplicas` keeps the autoscaler from taking away workers that must go."""
    return any(
        (group.min_replicas or 0) > counts.get(group.group_name, 0)
        for group in active.cluster.spec.worker_group_specs
        if group.group_name in counts
    )


def _to_leave(active: ClusterView, group: WorkerGroupSpec, count: int) -> list[Pod]:
    """The workers that leave, those without a Serve replica first. Of a group with several hosts per
    replica, the cluster's controller chooses."""
    if group.num_of_hosts > 1 or count <= 0:
        return []
    workers = sorted(
        _workers(active, group.group_name),
        key=lambda pod: (not _is_idle(active, pod), pod.metadata.name),
    )
    return workers[:count]


def _workers(active: ClusterView, group: str) -> Iterator[Pod]:
    going = {pod.metadata.uid for pod in _named_for_deletion(active)}
    for pod in active.pods:
        labels = pod.metadata.labels
        if pod is active.head_pod or labels.get(names.LABEL_GROUP) != group:
            continue
        if not is_terminating(pod) and pod.metadata.uid not in going:
            yield pod


def _is_idle(active: ClusterView, pod: Pod) -> bool:
    """Whether Serve runs no proxy there: it runs one where it runs a replica."""
    answer = active.answer
    return isinstance(answer, DashboardReply) and pod.status.pod_ip not in answer.proxies


def _named_for_deletion(view: ClusterView) -> Iterator[Pod]:
    named = {
        name
        for group in view.cluster.spec.worker_group_specs
        for name in group.scale_strategy.workers_to_delete
    }
    return (pod for pod in view.pods if pod.metadata.name in named)


# ── back ─────────────────────────────────────────────────────────────────────────────────


def groups_of_first_step(snapshot: ServiceSnapshot) -> tuple[Group, ...]:
    """The groups as they are once the new cluster, which is not there, is created."""
    weight, options = progress(snapshot).weight, snapshot.canary_options
    return tuple(replace(one, new=grown(one, weight, options)) for one in worker_groups(snapshot))


def restore_active(
    snapshot: ServiceSnapshot, groups: tuple[Group, ...] | None = None, *, is_over: bool = True
) -> Plan:
    """Give the active cluster its full size back, as far as the surge allows; then forget that size, if the
    canary is over. `groups`: other than they are now."""
    active = snapshot.active
    if active is None or active.is_deleting:
        return NOTHING
    sizes = recorded_sizes(active.cluster.metadata.annotations)
    if sizes is None:
        return NOTHING
    groups = groups or worker_groups(snapshot)
    counts = {one.name: restored(one, snapshot.canary_options) for one in groups}
    if is_over and all(counts[one.name] >= one.full_old for one in groups):
        return _end(active)
    if all(counts[one.name] == one.old for one in groups):
        return NOTHING
    return _resize(snapshot, active, counts, {}, "the canary is over")


def restored_capacity(
    snapshot: ServiceSnapshot, groups: tuple[Group, ...] | None = None
) -> int | None:
    """The target capacity of the active cluster once it is restored as far as the surge allows."""
    options = snapshot.canary_options
    after = [replace(one, old=restored(one, options)) for one in groups or worker_groups(snapshot)]
    return serve_capacity(after, of_new=False)


def _end(active: ClusterView) -> Plan:
    spec, annotations = active.cluster.spec, active.cluster.metadata.annotations
    fields = {
        name: full_bounds(size, scales=autoscaling(spec))
        for name, size in (recorded_sizes(annotations) or {}).items()
    }
    key = names.ANNOTATION_FULL_SIZE.replace("/", "~1")
    forget = {"op": "remove", "path": f"/metadata/annotations/{key}"}
    operations = [*resize_operations(spec, fields, {}), forget]
    return do(_patch(active, operations, "it has its full size again"), independent=True)


# ── the patch ────────────────────────────────────────────────────────────────────────────


def _resize(
    snapshot: ServiceSnapshot,
    view: ClusterView,
    counts: Mapping[str, int],
    leaving: Mapping[str, list[str]],
    why: str,
    least: Mapping[str, int] | None = None,
) -> Plan:
    """So many replicas of each group for the time being, or as few as `least` if an autoscaler finds them idle. The
    full size is recorded in the same patch."""
    cluster, sizes = view.cluster, full_sizes(snapshot, view)
    scales = autoscaling(cluster.spec)
    fields = {
        name: bounds(
            size, counts.get(name, size.replicas), scales=scales, least=(least or {}).get(name)
        )
        for name, size in sizes.items()
    }
    operations = resize_operations(cluster.spec, fields, leaving)
    annotations = cluster.metadata.annotations
    if names.ANNOTATION_FULL_SIZE not in annotations:
        note: Any = {names.ANNOTATION_FULL_SIZE: sizes_text(sizes)}
        path = "/metadata/annotations"
        if annotations:
            path, note = (
                f"{path}/{names.ANNOTATION_FULL_SIZE.replace('/', '~1')}",
                sizes_text(sizes),
            )
        operations.append({"op": "add", "path": path, "value": note})
    shown = ", ".join(
        f"{counts.get(name, 0)} of {one.replicas} {name}" for name, one in sizes.items()
    )
    return do(_patch(view, operations, f"workers {shown}: {why}"), independent=True)


def _patch(view: ClusterView, operations: list[dict[str, Any]], why: str) -> Patch:
    meta = view.cluster.metadata
    return Patch(
        RAY_CLUSTERS,
        meta.key,
        operations,
        Cause.RESIZE_CLUSTER,
        why,
        kind="json",
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
