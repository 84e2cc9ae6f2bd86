"""Clusters that no longer serve: each goes after a while, at a time that is written on it.

Requests that were on their way when the traffic moved are given that time to end. There are never
more clusters than the active one, the pending one, and those that wait for their time (C48).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import format_time, parse_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.snapshot import DELETE_AFTER, ServiceSnapshot
from manta.controllers.rayservice.step import Step
from manta.reconcile.actions import Action, Delete, Patch
from manta.reconcile.plan import do

DEFAULT_DELAY = timedelta(seconds=60)


def plan_old_clusters(seen: ServiceSnapshot) -> Step:
    actions: list[Action] = []
    timers: list[timedelta] = []
    for cluster in _old(seen):
        due = _deadline(cluster)
        if due is None and _delay(seen) > timedelta(0):
            actions.append(_note(cluster, seen.now + _delay(seen)))
        elif due is None or due <= seen.now:
            actions.append(delete_cluster(cluster, "it serves no more"))
        else:
            timers.append(due - seen.now)
    return Step(do(*actions, independent=True), timer=min(timers, default=None))


def plan_reprieve(seen: ServiceSnapshot) -> Step:
    """A cluster that is wanted again loses its date."""
    names_ = (seen.active_name, seen.pending_name)
    actions = [
        Patch(
            RAY_CLUSTERS,
            cluster.metadata.key,
            {"metadata": {"annotations": {DELETE_AFTER: None}}},
            Cause.NOTE_DEADLINE,
            uid=cluster.metadata.uid,
        )
        for cluster in seen.clusters
        if cluster.metadata.name in names_ and DELETE_AFTER in cluster.metadata.annotations
    ]
    return Step(do(*actions, independent=True))


def delete_clusters(seen: ServiceSnapshot, why: str) -> tuple[Delete, ...]:
    """All of them, at once; what is on its way out needs no second push."""
    return tuple(delete_cluster(cluster, why) for cluster in seen.clusters if _stays(cluster))


def delete_cluster(cluster: RayCluster, why: str) -> Delete:
    meta = cluster.metadata
    return Delete(RAY_CLUSTERS, meta.key, meta.uid, Cause.DELETE_CLUSTER, why)


def _old(seen: ServiceSnapshot) -> Iterator[RayCluster]:
    wanted = (seen.active_name, seen.pending_name)
    return (one for one in seen.clusters if _stays(one) and one.metadata.name not in wanted)


def _stays(cluster: RayCluster) -> bool:
    return cluster.metadata.deletion_timestamp is None


def _delay(seen: ServiceSnapshot) -> timedelta:
    chosen = seen.spec.ray_cluster_deletion_delay_seconds
    return DEFAULT_DELAY if chosen is None else timedelta(seconds=chosen)


def _deadline(cluster: RayCluster) -> datetime | None:
    try:
        return parse_time(cluster.metadata.annotations[DELETE_AFTER])
    except (KeyError, ValueError):
        return None


def _note(cluster: RayCluster, due: datetime) -> Patch:
    meta = cluster.metadata
    # Times are written in whole seconds: round up, so that nobody loses a part of one.
    text = format_time(due + timedelta(microseconds=999_999))
    body = {"metadata": {"annotations": {DELETE_AFTER: text}}}
    why = f"it will be deleted at {text}"
    return Patch(RAY_CLUSTERS, meta.key, body, Cause.NOTE_DEADLINE, why, uid=meta.uid)
