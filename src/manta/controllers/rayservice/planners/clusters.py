"""Which clusters exist: create the pending one, replace it, or update a cluster in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from manta.api.ray.cluster import RayCluster, WorkerGroupSpec
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import RayServiceStatus, RayServiceStatuses, ServiceUpgradeType
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.canary import (
    full_sizes,
    progress,
    takes_part_in_canary,
    worker_groups,
)
from manta.controllers.rayservice.facts.clusters import (
    SpecMatch,
    is_rolling_back,
    is_up_to_date,
    is_upgrade_due,
    matches_spec,
    rejection,
    spec_match,
)
from manta.controllers.rayservice.planners.old_clusters import delete_cluster
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep, with_active, without_pending
from manta.manifests.canary_cluster import resize
from manta.manifests.containers import Json, copy_json
from manta.manifests.service_cluster import build_service_cluster, identity, replicas_asked_for
from manta.reconcile.actions import Create, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.reconcile.step import Step, change_status_after
from manta.rules.canary import grown
from manta.rules.spec_hash import spec_hash
from manta.rules.traits import autoscaling


def plan_clusters(snapshot: ServiceSnapshot) -> ServiceStep:
    if is_upgrade_due(snapshot):
        return change_status_after(NOTHING, _new_pending_name(snapshot))
    if not snapshot.pending_name:
        return Step(_update_in_place(snapshot, snapshot.active))
    if snapshot.pending is None:
        return _create_pending(snapshot)
    if snapshot.pending.is_deleting:
        gone = without_pending if rejection(snapshot) else _new_pending_name(snapshot)
        return change_status_after(NOTHING, gone)
    if matches_spec(snapshot, snapshot.pending):
        return Step(_update_in_place(snapshot, snapshot.pending))
    return _drop_pending(snapshot, snapshot.pending)


def _create_pending(snapshot: ServiceSnapshot) -> ServiceStep:
    if is_up_to_date(snapshot, snapshot.active) or rejection(snapshot):
        return change_status_after(NOTHING, without_pending)
    manifest = build_service_cluster(
        snapshot.service,
        snapshot.cluster_spec,
        snapshot.pending_name,
        snapshot.settings.version,
        from_smallest=snapshot.is_incremental and snapshot.active is not None,
    )
    if snapshot.is_canary and snapshot.active is not None:
        manifest = _first_size(snapshot, manifest)
    return Step(do(Create(RAY_CLUSTERS, manifest, Cause.CREATE_CLUSTER), independent=True))


def _first_size(snapshot: ServiceSnapshot, manifest: Json) -> Json:
    """The new cluster of a canary begins with the workers that its first step needs."""
    weight, options = progress(snapshot).weight, snapshot.canary_options
    counts = {one.name: grown(one, weight, options) for one in worker_groups(snapshot)}
    return resize(manifest, full_sizes(snapshot, None), counts)


def _drop_pending(snapshot: ServiceSnapshot, pending: ClusterView) -> ServiceStep:
    """The spec changed during the upgrade. The pending cluster never served: delete it at once."""
    if is_rolling_back(snapshot) or snapshot.strategy == ServiceUpgradeType.NONE:
        return Step()
    back = is_up_to_date(snapshot, snapshot.active)
    why = "the spec matches the active cluster again" if back else "the spec changed again"
    change = without_pending if back else _new_pending_name(snapshot)
    return change_status_after(
        do(delete_cluster(snapshot, pending.cluster, why), independent=True), change
    )


def _new_pending_name(
    snapshot: ServiceSnapshot,
) -> Callable[[RayServiceStatuses], RayServiceStatuses]:
    """Reset the pending status to a new name. The next reconcile creates the cluster."""
    capacity = None
    if snapshot.is_incremental:
        capacity = 100 if snapshot.active is None else 0
    fresh = RayServiceStatus(ray_cluster_name=snapshot.new_cluster_name(), target_capacity=capacity)

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        if snapshot.is_canary:  # the time of an earlier upgrade would end this one at its deadline
            status = with_active(status, last_traffic_migrated_time=None)
        return msgspec.structs.replace(status, pending_service_status=fresh)

    return change


# ── updates in place ─────────────────────────────────────────────────────────────────────


def _update_in_place(snapshot: ServiceSnapshot, view: ClusterView | None) -> Plan:
    if view is None or view.is_deleting or takes_part_in_canary(view):
        return NOTHING
    match = spec_match(snapshot, view.cluster)
    if match is SpecMatch.DIFFERENT:
        return NOTHING  # upgradeStrategy None: the cluster stays as it is
    operations, why = _operations(snapshot, view.cluster, match)
    if not operations:
        return NOTHING
    meta = view.cluster.metadata
    cause = Cause.ADOPT_CLUSTER if match is SpecMatch.FOREIGN else Cause.UPDATE_CLUSTER
    patch = Patch(
        RAY_CLUSTERS,
        meta.key,
        operations,
        cause,
        why,
        kind="json",
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
    return do(patch, independent=True)


Operations = list[dict[str, Any]]


def _operations(
    snapshot: ServiceSnapshot, cluster: RayCluster, match: SpecMatch
) -> tuple[Operations, str]:
    """A JSON patch, because a merge patch replaces whole lists; and its reason."""
    if match is SpecMatch.FOREIGN and spec_hash(cluster.spec) != snapshot.goal_hash:
        return [
            {"op": "replace", "path": "/spec", "value": _adopted_spec(snapshot, cluster)},
            *_identity(snapshot, cluster),
        ], "adopted from another operator version, with the current spec"
    bounds = _bounds(snapshot, cluster)
    groups = _appended(snapshot, cluster) if match is not SpecMatch.SAME else []
    found = [*bounds, *groups, *_identity(snapshot, cluster)]
    if match is SpecMatch.FOREIGN:
        return found, "adopted from another operator version"
    if groups or bounds:
        why = "worker groups were added" if groups else "the bounds of worker groups changed"
        return found, why
    return found, "recorded by this version of the operator"


def _identity(snapshot: ServiceSnapshot, cluster: RayCluster) -> Operations:
    has = cluster.metadata.annotations
    wanted = identity(snapshot.service, snapshot.settings.version)
    if not has:
        return [{"op": "add", "path": "/metadata/annotations", "value": wanted}]
    return [
        {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": text}
        for key, text in wanted.items()
        if has.get(key) != text
    ]


def _bounds(snapshot: ServiceSnapshot, cluster: RayCluster) -> Operations:
    """`minReplicas` and `maxReplicas` (C11), and `replicas` if the user edited them in the RayService
    and no autoscaler owns them (C09). Values that others set on the cluster stay."""
    wanted = snapshot.spec.ray_cluster_config.worker_group_specs
    return [
        {"op": "add", "path": f"/spec/workerGroupSpecs/{at}/{field}", "value": value}
        for at, (has, goal) in enumerate(zip(cluster.spec.worker_group_specs, wanted, strict=False))
        if has.group_name == goal.group_name
        for field in ("minReplicas", "maxReplicas", *_edited_replicas(cluster, goal))
        if (value := _number(goal, field)) is not None and value != _number(has, field)
    ]


def _edited_replicas(cluster: RayCluster, goal: WorkerGroupSpec) -> tuple[str, ...]:
    before = replicas_asked_for(cluster.metadata.annotations)
    if autoscaling(cluster.spec) or before is None:
        return ()
    return () if before.get(goal.group_name) == goal.replicas else ("replicas",)


def _number(group: WorkerGroupSpec, field: str) -> int | None:
    numbers = {
        "minReplicas": group.min_replicas,
        "maxReplicas": group.max_replicas,
        "replicas": group.replicas,
    }
    return numbers[field]


def _appended(snapshot: ServiceSnapshot, cluster: RayCluster) -> Operations:
    has = len(cluster.spec.worker_group_specs)
    groups = snapshot.cluster_spec.get("workerGroupSpecs") or ()
    further = [copy_json(one) for one in groups[has:]]
    if not has and further:
        return [{"op": "add", "path": "/spec/workerGroupSpecs", "value": further}]
    return [{"op": "add", "path": "/spec/workerGroupSpecs/-", "value": one} for one in further]


def _adopted_spec(snapshot: ServiceSnapshot, cluster: RayCluster) -> dict[str, Any]:
    """The current spec, with the values that an autoscaler or a queue set on the live cluster."""
    spec: dict[str, Any] = copy_json(snapshot.cluster_spec)
    if cluster.spec.suspend is not None:
        spec["suspend"] = cluster.spec.suspend
    if not autoscaling(cluster.spec):
        return spec
    live = {group.group_name: group for group in cluster.spec.worker_group_specs}
    for group in spec.get("workerGroupSpecs") or ():
        has = live.get(group["groupName"])
        if has is not None and has.replicas is not None:
            group["replicas"] = has.replicas
            group["scaleStrategy"] = {"workersToDelete": list(has.scale_strategy.workers_to_delete)}
    return spec
