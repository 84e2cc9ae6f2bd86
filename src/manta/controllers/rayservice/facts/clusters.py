"""How the clusters of a RayService compare with its spec.

The spec is compared with the newest cluster by hash, without the fields that the autoscaler or a queue
changes (C43). The recorded hash is used only if this version of the operator wrote it. For a cluster of
another Manta version the live spec, a copy of the RayService's, is hashed. A cluster of another operator
is adopted as it is, unless a field that both specs set differs: then a user edited it.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final

import msgspec

from manta.api.core import Pod, Service
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterSpec
from manta.api.ray.service import ServiceUpgradeType
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.manifests.service_cluster import groups_made_with
from manta.rules.differences import contradictions
from manta.rules.pod_health import is_ready
from manta.rules.settings import VERSION_PREFIX
from manta.rules.spec_hash import hashed_part, spec_hash

RECHECK_AFTER: Final = timedelta(seconds=20)
MAX_RECHECKED_PODS: Final = 10
"""Number of Pods of a large cluster that are checked again: it needs one that takes requests, not all."""


class SpecMatch(Enum):
    """How a cluster compares with the current spec."""

    SAME = auto()
    GROUPS_ADDED = auto()
    """The spec has further worker groups behind those that the cluster was created with."""
    FOREIGN = auto()
    """Another operator created the cluster: its hash is not comparable."""
    DIFFERENT = auto()


def spec_match(snapshot: ServiceSnapshot, cluster: RayCluster) -> SpecMatch:
    annotations, wanted = cluster.metadata.annotations, snapshot.spec.ray_cluster_config
    version, ours = (
        annotations.get(names.ANNOTATION_OPERATOR_VERSION, ""),
        snapshot.settings.version,
    )
    if version != ours and not version.startswith(VERSION_PREFIX):
        edited = contradictions(_hashed_part(cluster.spec), _hashed_part(wanted))
        return SpecMatch.DIFFERENT if edited else SpecMatch.FOREIGN
    made_of, count = annotations.get(names.ANNOTATION_SPEC_HASH), groups_made_with(annotations)
    if version != ours and made_of != snapshot.goal_hash:
        made_of, count = spec_hash(cluster.spec), len(cluster.spec.worker_group_specs)
    if made_of == snapshot.goal_hash:
        return SpecMatch.SAME
    if count is None or count >= len(wanted.worker_group_specs):
        return SpecMatch.DIFFERENT
    without_new_groups = spec_hash(wanted, worker_groups=count)
    return SpecMatch.GROUPS_ADDED if without_new_groups == made_of else SpecMatch.DIFFERENT


def _hashed_part(spec: RayClusterSpec) -> Any:
    return msgspec.to_builtins(hashed_part(spec))


def matches_spec(snapshot: ServiceSnapshot, view: ClusterView | None) -> bool:
    """Whether this cluster can serve the spec, if necessary after an update in place."""
    if view is None or view.is_deleting:
        return False
    return spec_match(snapshot, view.cluster) is not SpecMatch.DIFFERENT


def is_up_to_date(snapshot: ServiceSnapshot, view: ClusterView | None) -> bool:
    """Whether this cluster was created from the current spec, by our own hash."""
    if view is None or view.is_deleting:
        return False
    return spec_match(snapshot, view.cluster) in (SpecMatch.SAME, SpecMatch.GROUPS_ADDED)


def is_upgrade_due(snapshot: ServiceSnapshot) -> bool:
    """Whether a new cluster is needed and has no name yet."""
    if snapshot.pending_name:
        return False
    if snapshot.active is None or snapshot.active.is_deleting:
        return True
    never = snapshot.strategy == ServiceUpgradeType.NONE or bool(rejection(snapshot))
    return not matches_spec(snapshot, snapshot.active) and not never


def rejection(snapshot: ServiceSnapshot) -> str:
    """Why the canary of the current spec was rolled back; empty if it was not."""
    if not snapshot.is_canary or snapshot.active is None:
        return ""
    text = snapshot.active.cluster.metadata.annotations.get(names.ANNOTATION_REJECTED_SPEC, "")
    rejected, _, why = text.partition(" ")
    return why if rejected == snapshot.goal_hash else ""


def is_rolling_back(snapshot: ServiceSnapshot) -> bool:
    """Whether traffic is split, and the spec no longer matches the pending cluster or was rejected."""
    if snapshot.active is None or snapshot.pending is None or not snapshot.is_split:
        return False
    return not matches_spec(snapshot, snapshot.pending) or bool(rejection(snapshot))


def is_pending_wanted(snapshot: ServiceSnapshot) -> bool:
    """Whether the upgrade to the pending cluster continues. Otherwise it gets no traffic."""
    pending = snapshot.pending
    if pending is None or pending.is_deleting:
        return False
    return matches_spec(snapshot, pending) or snapshot.strategy == ServiceUpgradeType.NONE


def selected_cluster(service: Service | None) -> str:
    """The name of the cluster that a Service selects; empty if none."""
    return service.spec.selector.get(names.LABEL_CLUSTER, "") if service else ""


def pods_to_recheck(snapshot: ServiceSnapshot) -> tuple[Pod, ...]:
    """Unready heads, and unready Pods of a pending cluster: the operator waits for these.

    They are read from the API server from time to time, in case a watch lost an event (C49).
    """
    heads = [one.head_pod for one in (snapshot.pending, snapshot.active) if one is not None]
    pods = [*heads, *(snapshot.pending.pods if snapshot.pending is not None else ())]
    unready = {pod.metadata.uid: pod for pod in pods if pod is not None and not is_ready(pod)}
    return tuple(unready.values())[:MAX_RECHECKED_PODS]
