"""The Workload and the PodGroup by which Kubernetes itself schedules a cluster as a gang.

Both are immutable: if the cluster has another size, they are deleted, the PodGroup first, and created again.
"""

from __future__ import annotations

from manta.api.resources import WORKLOAD_POD_GROUPS, WORKLOADS
from manta.api.well_known import FINALIZER_POD_GROUP
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import HasMetadata, is_ours
from manta.controllers.raycluster.planners.ensure import ensure
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.gang.kubernetes_was import (
    build_pod_group,
    build_workload,
    is_workload,
    pod_group_fits,
    workload_fits,
)
from manta.manifests.gang.members import cluster_gang
from manta.reconcile.actions import Action, Create, Delete
from manta.reconcile.finalizers import remove_finalizer
from manta.reconcile.plan import Plan, Wait, do

RESIZED = "the gang has another size now"
NO_GANG = "the cluster is not a gang: it has an autoscaler, or no gang label"


def plan_workload(snapshot: ClusterSnapshot) -> Plan:
    """Workload, then PodGroup, then Pods: the API server wants each before the next."""
    gang = cluster_gang(snapshot.cluster)
    if not is_workload(gang):
        return do(*_removal(snapshot, NO_GANG), independent=True)
    workload, group = snapshot.workload, snapshot.workload_group
    if workload and _is_outdated(snapshot, workload, fits=workload_fits(gang, workload)):
        return _replacement("Workload", *_removal(snapshot, RESIZED))
    if group and _is_outdated(snapshot, group, fits=pod_group_fits(gang, group)):
        return _replacement("PodGroup", *_pod_group_removal(snapshot, RESIZED))
    first = Create(WORKLOADS, build_workload(gang), Cause.WORKLOAD)
    second = Create(WORKLOAD_POD_GROUPS, build_pod_group(gang), Cause.POD_GROUP)
    plan = _claim(snapshot, first, workload)
    return plan if plan.wait else plan.then(_claim(snapshot, second, group))


def _claim(snapshot: ClusterSnapshot, create: Create, live: HasMetadata | None) -> Plan:
    """Create the object. One of another owner, or of none, makes that fail and is named (as in KubeRay)."""
    is_nobodys = live is not None and live.metadata.controller is None
    return do(create) if is_nobodys else ensure(snapshot, create, live)


def _is_outdated(snapshot: ClusterSnapshot, live: HasMetadata, *, fits: bool) -> bool:
    is_going = live.metadata.deletion_timestamp is not None
    return is_ours(snapshot, live) and (is_going or not fits)


def _replacement(kind: str, *actions: Action) -> Plan:
    return do(*actions, wait=Wait(f"the {kind} is replaced: {RESIZED}"))


def _removal(snapshot: ClusterSnapshot, why: str) -> tuple[Action, ...]:
    """The next step to remove both objects, if they are ours."""
    group, workload = snapshot.workload_group, snapshot.workload
    if group and is_ours(snapshot, group):
        return _pod_group_removal(snapshot, why)
    if not workload or not is_ours(snapshot, workload) or workload.metadata.deletion_timestamp:
        return ()
    meta = workload.metadata
    return (Delete(WORKLOADS, meta.key, meta.uid, Cause.STALE_WORKLOAD, why),)


def _pod_group_removal(snapshot: ClusterSnapshot, why: str) -> tuple[Action, ...]:
    """Delete the PodGroup, then take its finalizer away: the Pods that name it go on running."""
    if snapshot.workload_group is None:
        return ()
    meta, cause = snapshot.workload_group.metadata, Cause.STALE_POD_GROUP
    if meta.deletion_timestamp is None:
        return (Delete(WORKLOAD_POD_GROUPS, meta.key, meta.uid, cause, why),)
    if FINALIZER_POD_GROUP not in meta.finalizers:
        return ()
    release = Cause.POD_GROUP_RELEASED
    return (remove_finalizer(WORKLOAD_POD_GROUPS, meta, FINALIZER_POD_GROUP, release, why),)
