"""Clusters that no longer serve: each is deleted at the time that its annotation names.

The delay lets requests end that were sent before the traffic moved. Besides the active and the pending
cluster there are only those that wait for their deletion (C48).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from manta.api.ray.cluster import RayCluster
from manta.api.ray.names import ANNOTATION_DELETE_AFTER
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import format_time_rounded_up, parse_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep
from manta.reconcile.actions import Action, Delete, Patch, Propagation
from manta.reconcile.plan import Plan, do
from manta.reconcile.step import Step, earliest

DEFAULT_DELAY = timedelta(seconds=60)
NOTICE = timedelta(seconds=2)
"""Clients see the switch a moment after it was made, and for them, too, the delay is never shortened. KubeRay
begins to count when it looks the next time, which is up to two seconds later."""


def plan_old_clusters(snapshot: ServiceSnapshot) -> ServiceStep:
    actions: list[Action] = []
    timers: list[timedelta] = []
    delay = deletion_delay(snapshot)
    wanted = (snapshot.active_name, snapshot.pending_name)
    for cluster in _live_clusters(snapshot):
        if cluster.metadata.name in wanted:
            continue
        due = _deletion_time(cluster)
        if due is None and delay > timedelta(0):
            actions.append(_schedule_deletion(cluster, snapshot.now + delay + NOTICE))
        elif due is None or due <= snapshot.now:
            actions.append(delete_cluster(snapshot, cluster, "it no longer serves"))
        else:
            timers.append(due - snapshot.now)
    return Step(do(*actions, independent=True), wake_in=earliest(*timers))


def cancel_scheduled_deletion(snapshot: ServiceSnapshot) -> Plan:
    """For a cluster that became active or pending again."""
    wanted = (snapshot.active_name, snapshot.pending_name)
    actions = [
        _set_deletion_time(cluster, None)
        for cluster in snapshot.clusters
        if cluster.metadata.name in wanted
        and ANNOTATION_DELETE_AFTER in cluster.metadata.annotations
    ]
    return do(*actions, independent=True)


def delete_clusters(snapshot: ServiceSnapshot, why: str) -> tuple[Delete, ...]:
    """Delete all clusters that are not being deleted yet."""
    return tuple(delete_cluster(snapshot, cluster, why) for cluster in _live_clusters(snapshot))


def delete_cluster(snapshot: ServiceSnapshot, cluster: RayCluster, why: str) -> Delete:
    """A canary counts the GPUs of clusters that go: such a cluster stays until its Pods are gone."""
    meta = cluster.metadata
    propagation: Propagation = "Foreground" if snapshot.is_canary else "Background"
    return Delete(RAY_CLUSTERS, meta.key, meta.uid, Cause.DELETE_CLUSTER, why, propagation)


def _live_clusters(snapshot: ServiceSnapshot) -> list[RayCluster]:
    return [one for one in snapshot.clusters if one.metadata.deletion_timestamp is None]


def deletion_delay(snapshot: ServiceSnapshot) -> timedelta:
    chosen = snapshot.spec.ray_cluster_deletion_delay_seconds
    return DEFAULT_DELAY if chosen is None else timedelta(seconds=chosen)


def _deletion_time(cluster: RayCluster) -> datetime | None:
    try:
        return parse_time(cluster.metadata.annotations[ANNOTATION_DELETE_AFTER])
    except (KeyError, ValueError):
        return None


def _schedule_deletion(cluster: RayCluster, due: datetime) -> Patch:
    text = format_time_rounded_up(due)
    return _set_deletion_time(cluster, text, f"it will be deleted at {text}")


def _set_deletion_time(cluster: RayCluster, text: str | None, why: str = "") -> Patch:
    meta, body = cluster.metadata, {"metadata": {"annotations": {ANNOTATION_DELETE_AFTER: text}}}
    return Patch(RAY_CLUSTERS, meta.key, body, Cause.NOTE_DEADLINE, why, uid=meta.uid)
