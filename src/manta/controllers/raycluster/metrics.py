"""KubeRay's metrics of RayClusters, worked out from the cache at each scrape.

Nothing is counted along the way: a restart loses nothing, and a deleted cluster leaves no series
behind (C38).
"""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.conditions import find, is_true
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.times import parse_time
from manta.rules.traits import Creator, creator
from manta.runtime.informer import Informer
from manta.runtime.metrics import Computed, Registry

Row = tuple[tuple[str, ...], float]
_WHO = ("name", "namespace", "uid")


def register(registry: Registry, clusters: Informer[RayCluster]) -> None:
    families = (
        Computed(
            "kuberay_cluster_provisioned_duration_seconds",
            "The time, in seconds, from the creation of a RayCluster until it was provisioned.",
            _WHO,
            lambda: provisioned_durations(clusters.all()),
        ),
        Computed(
            "kuberay_cluster_info",
            "Metadata of RayClusters.",
            (*_WHO, "owner_kind"),
            lambda: infos(clusters.all()),
        ),
        Computed(
            "kuberay_cluster_condition_provisioned",
            "Whether a RayCluster has been provisioned.",
            (*_WHO, "condition"),
            lambda: provisioned(clusters.all()),
        ),
    )
    for family in families:
        registry.register(family)


def provisioned_durations(clusters: tuple[RayCluster, ...]) -> Iterator[Row]:
    for cluster in clusters:
        condition = find(cluster.status.conditions, ClusterConditionType.PROVISIONED)
        if condition is None or condition.status != "True":
            continue
        created = parse_time(cluster.metadata.creation_timestamp)
        took = parse_time(condition.last_transition_time) - created
        yield _who(cluster), took.total_seconds()


def infos(clusters: tuple[RayCluster, ...]) -> Iterator[Row]:
    for cluster in clusters:
        kind = creator(cluster.metadata)
        yield (*_who(cluster), "None" if kind is Creator.CLUSTER else kind), 1.0


def provisioned(clusters: tuple[RayCluster, ...]) -> Iterator[Row]:
    for cluster in clusters:
        is_so = is_true(cluster.status.conditions, ClusterConditionType.PROVISIONED)
        yield (*_who(cluster), "true" if is_so else "false"), 1.0


def _who(cluster: RayCluster) -> tuple[str, str, str]:
    meta = cluster.metadata
    return meta.name, meta.namespace, meta.uid
