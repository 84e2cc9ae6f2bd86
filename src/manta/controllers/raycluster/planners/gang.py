"""The PodGroup of a gang: made before the Pods, and kept as large as the cluster is to be."""

from __future__ import annotations

from dataclasses import replace

from manta.api.ray.cluster import WorkerGroupSpec
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import ensure, mend
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.containers import Json
from manta.manifests.gang import gang_scheduler, pod_groups
from manta.manifests.gang.members import cluster_leader, pod_group_drift
from manta.manifests.worker_pod import WorkerPodMold, worker_pod_mold
from manta.reconcile.plan import NOTHING, Plan


def plan_gang(seen: ClusterSnapshot) -> Plan:
    """A scheduler that sees Pods before their group would start them one by one."""
    groups, leader = pod_groups(seen.settings), cluster_leader(seen.cluster)
    if groups is None or not groups.name(leader):
        return NOTHING
    manifest = groups.build(leader)
    live = seen.pod_group
    plan = ensure(seen, groups.resource, manifest, live, Cause.POD_GROUP)
    if plan != NOTHING or live is None:
        return plan
    why = "the gang has another size now"
    change = pod_group_drift(manifest["spec"], live)
    return mend(seen, groups.resource, live, change, Cause.POD_GROUP_DRIFT, why)


def marked(seen: ClusterSnapshot, pod: Json, group: str) -> Json:
    """The Pod as a member of its gang, if there are gangs."""
    scheduler = gang_scheduler(seen.settings)
    return scheduler.mark(cluster_leader(seen.cluster), pod, group) if scheduler else pod


def worker_mold(seen: ClusterSnapshot, group: WorkerGroupSpec) -> WorkerPodMold:
    """All that the Pods of one group have in common, their gang included."""
    mold = worker_pod_mold(seen.cluster, group, seen.settings)
    pod = marked(seen, {"metadata": mold.metadata, "spec": mold.spec}, group.group_name)
    return replace(mold, metadata=pod["metadata"], spec=pod["spec"])
