"""CPU- and GPU-hours of the watched clusters, used and idle, computed at each scrape from what is noted on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.controllers.idlesuspend.usage import usage_of
from manta.rules.usage import Hours
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.metrics import Computed, Registry

Row = tuple[tuple[str, ...], float]
_LABELS = ("namespace", "cluster", "user", "state")


def register(registry: Registry, clusters: Informer[RayCluster], clock: Clock) -> None:
    """`user`: the label `manta.ray.io/user` of the cluster; `state`: used or idle."""
    registry.register(
        Computed(
            "manta_cluster_cpu_hours_total",
            "CPU-hours of RayClusters that are watched for idleness, used and idle.",
            _LABELS,
            lambda: rows(clusters, clock, lambda hours: (hours.used_cpu, hours.idle_cpu)),
            kind="counter",
        )
    )
    registry.register(
        Computed(
            "manta_cluster_gpu_hours_total",
            "GPU-hours of RayClusters that are watched for idleness, used and idle.",
            _LABELS,
            lambda: rows(clusters, clock, lambda hours: (hours.used_gpu, hours.idle_gpu)),
            kind="counter",
        )
    )


def rows(
    clusters: Informer[RayCluster], clock: Clock, pick: Callable[[Hours], tuple[float, float]]
) -> Iterator[Row]:
    now = clock.now()
    for cluster in clusters.all():
        usage = usage_of(cluster.metadata.annotations)
        if usage is None:
            continue
        meta = cluster.metadata
        who = (meta.namespace, meta.name, meta.labels.get(names.LABEL_USER, ""))
        used, idle = pick(usage.until(now).total)
        yield (*who, "used"), used
        yield (*who, "idle"), idle
