"""Which clusters there should be: make the pending one, replace it, or change one where it stands.

A spec is compared with the cluster that was made last: by hash, so that what the autoscaler or a
queue changes counts for nothing (C43). The recorded hash is compared only if this version of the
operator wrote it. Of a cluster that another version of ours made, the live spec is hashed instead, which
is a copy of the RayService's. One that another operator made is adopted as it is, and never replaced for
that reason, unless a field that both specs have says something else: then somebody edited it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterSpec, WorkerGroupSpec
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import RayServiceStatus, RayServiceStatuses, ServiceUpgradeType
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot
from manta.controllers.rayservice.step import NO_STEP, Change, Step, without_pending
from manta.manifests.containers import copy_json
from manta.manifests.service_cluster import (
    build_service_cluster,
    groups_made_with,
    identity,
    replicas_asked_for,
)
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import do
from manta.rules.differences import contradictions
from manta.rules.settings import VERSION_PREFIX
from manta.rules.spec_hash import essence, spec_hash
from manta.rules.traits import autoscaling


class Fit(Enum):
    """How a cluster compares with what the spec wants now."""

    SAME = auto()
    GROWN = auto()
    """The spec has further worker groups behind those that the cluster was made with."""
    FOREIGN = auto()
    """Made by another operator: its hash says nothing to us."""
    DIFFERENT = auto()


def fit(seen: ServiceSnapshot, cluster: RayCluster) -> Fit:
    annotations, wanted = cluster.metadata.annotations, seen.spec.ray_cluster_config
    version = annotations.get(names.ANNOTATION_OPERATOR_VERSION, "")
    if version != seen.settings.version and not version.startswith(VERSION_PREFIX):
        edited = contradictions(_essence(cluster.spec), _essence(wanted))
        return Fit.DIFFERENT if edited else Fit.FOREIGN
    made_of, count = annotations.get(names.ANNOTATION_SPEC_HASH), groups_made_with(annotations)
    if version != seen.settings.version and made_of != seen.goal_hash:
        made_of, count = spec_hash(cluster.spec), len(cluster.spec.worker_group_specs)
    if made_of == seen.goal_hash:
        return Fit.SAME
    if count is None or count >= len(wanted.worker_group_specs):
        return Fit.DIFFERENT
    as_it_was = spec_hash(wanted, worker_groups=count)
    return Fit.GROWN if as_it_was == made_of else Fit.DIFFERENT


def _essence(spec: RayClusterSpec) -> Any:
    return msgspec.to_builtins(essence(spec))


def fits(seen: ServiceSnapshot, sight: ClusterSight | None) -> bool:
    """Can this cluster be what the spec wants, if need be with a change where it stands?"""
    if sight is None or sight.is_going:
        return False
    return fit(seen, sight.cluster) is not Fit.DIFFERENT


def is_current(seen: ServiceSnapshot, sight: ClusterSight | None) -> bool:
    """Was this cluster made of what the spec says now, by our own hash?"""
    if sight is None or sight.is_going:
        return False
    return fit(seen, sight.cluster) in (Fit.SAME, Fit.GROWN)


def is_upgrade_due(seen: ServiceSnapshot) -> bool:
    """A new cluster is wanted, and none has been named yet."""
    if seen.pending_name:
        return False
    if seen.active is None or seen.active.is_going:
        return True
    return not fits(seen, seen.active) and seen.strategy != ServiceUpgradeType.NONE


def is_rolling_back(seen: ServiceSnapshot) -> bool:
    """Traffic has been split, and the spec no longer wants the pending cluster: walk back first."""
    both = seen.active is not None and seen.pending is not None
    return both and seen.is_incremental and not fits(seen, seen.pending)


def is_pending_wanted(seen: ServiceSnapshot) -> bool:
    """Does an upgrade go on with the pending cluster that there is? Else it gets no traffic."""
    pending = seen.pending
    if pending is None or pending.is_going:
        return False
    return fits(seen, pending) or seen.strategy == ServiceUpgradeType.NONE


def plan_clusters(seen: ServiceSnapshot) -> Step:
    if is_upgrade_due(seen):
        return Step(change=_named_anew(seen))
    if not seen.pending_name:
        return _in_place(seen, seen.active)
    if seen.pending is None:
        return _first_of_its_name(seen)
    if seen.pending.is_going:
        return Step(change=_named_anew(seen))
    if fits(seen, seen.pending):
        return _in_place(seen, seen.pending)
    return _no_longer_wanted(seen, seen.pending)


def _first_of_its_name(seen: ServiceSnapshot) -> Step:
    if is_current(seen, seen.active):
        return Step(change=without_pending)
    split = seen.is_incremental and seen.active is not None
    manifest = build_service_cluster(
        seen.service,
        seen.cluster_spec,
        seen.pending_name,
        seen.settings.version,
        from_smallest=split,
    )
    return Step(do(Create(RAY_CLUSTERS, manifest, Cause.CREATE_CLUSTER), independent=True))


def _no_longer_wanted(seen: ServiceSnapshot, pending: ClusterSight) -> Step:
    """The spec changed in mid-upgrade. A pending cluster never served: it goes at once."""
    if is_rolling_back(seen) or seen.strategy == ServiceUpgradeType.NONE:
        return NO_STEP
    back = is_current(seen, seen.active)
    why = "the spec is that of the active cluster again" if back else "the spec changed once more"
    meta = pending.cluster.metadata
    delete = Delete(RAY_CLUSTERS, meta.key, meta.uid, Cause.DELETE_CLUSTER, why)
    change = without_pending if back else _named_anew(seen)
    return Step(do(delete, independent=True), change)


def _named_anew(seen: ServiceSnapshot) -> Change:
    """A clean pending status with a fresh name; the cluster itself is made a round later."""
    capacity = None
    if seen.is_incremental:
        capacity = 100 if seen.active is None else 0
    fresh = RayServiceStatus(ray_cluster_name=seen.new_cluster_name(), target_capacity=capacity)

    def change(status: RayServiceStatuses) -> RayServiceStatuses:
        return msgspec.structs.replace(status, pending_service_status=fresh)

    return change


# ── changes where a cluster stands ───────────────────────────────────────────────────────


def _in_place(seen: ServiceSnapshot, sight: ClusterSight | None) -> Step:
    if sight is None or sight.is_going:
        return NO_STEP
    verdict = fit(seen, sight.cluster)
    if verdict is Fit.DIFFERENT:
        return NO_STEP  # upgradeStrategy None: the cluster stays as it is
    operations, why = _operations(seen, sight.cluster, verdict)
    if not operations:
        return NO_STEP
    meta = sight.cluster.metadata
    cause = Cause.ADOPT_CLUSTER if verdict is Fit.FOREIGN else Cause.UPDATE_CLUSTER
    patch = Patch(
        RAY_CLUSTERS,
        Key(meta.namespace, meta.name),
        operations,
        cause,
        why,
        kind="json",
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
    return Step(do(patch, independent=True))


Operations = list[dict[str, Any]]


def _operations(seen: ServiceSnapshot, cluster: RayCluster, verdict: Fit) -> tuple[Operations, str]:
    """A JSON patch, because lists of a custom resource cannot be merged; and what it is for."""
    if verdict is Fit.FOREIGN and spec_hash(cluster.spec) != seen.goal_hash:
        return [
            {"op": "replace", "path": "/spec", "value": _adopted_spec(seen, cluster)},
            *_identity(seen, cluster),
        ], "taken over from another operator version, with the spec of now"
    bounds = _bounds(seen, cluster)
    groups = _appended(seen, cluster) if verdict is not Fit.SAME else []
    found = [*bounds, *groups, *_identity(seen, cluster)]
    if verdict is Fit.FOREIGN:
        return found, "taken over from another operator version"
    if groups or bounds:
        return (
            found,
            "worker groups were added" if groups else "the bounds of worker groups changed",
        )
    return found, "recorded by this version of the operator"


def _identity(seen: ServiceSnapshot, cluster: RayCluster) -> Operations:
    has, wanted = cluster.metadata.annotations, identity(seen.service, seen.settings.version)
    if not has:
        return [{"op": "add", "path": "/metadata/annotations", "value": wanted}]
    return [
        {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": text}
        for key, text in wanted.items()
        if has.get(key) != text
    ]


def _bounds(seen: ServiceSnapshot, cluster: RayCluster) -> Operations:
    """`minReplicas` and `maxReplicas` (C11), and `replicas` that the user has edited here, unless the
    autoscaler owns them (C09): what others set on the cluster is left alone."""
    wanted = seen.spec.ray_cluster_config.worker_group_specs
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


def _appended(seen: ServiceSnapshot, cluster: RayCluster) -> Operations:
    has = len(cluster.spec.worker_group_specs)
    further = [copy_json(one) for one in (seen.cluster_spec.get("workerGroupSpecs") or ())[has:]]
    if not has and further:
        return [{"op": "add", "path": "/spec/workerGroupSpecs", "value": further}]
    return [{"op": "add", "path": "/spec/workerGroupSpecs/-", "value": one} for one in further]


def _adopted_spec(seen: ServiceSnapshot, cluster: RayCluster) -> dict[str, Any]:
    """The spec of now; what the autoscaler and queues decided about the live cluster stays."""
    spec: dict[str, Any] = copy_json(seen.cluster_spec)
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
