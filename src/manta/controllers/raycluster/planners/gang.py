"""The PodGroup of a gang: created before the Pods, and resized with the cluster."""

from __future__ import annotations

from dataclasses import replace

from manta.api.ray.cluster import WorkerGroupSpec
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import cluster_of_new_workers, revision_of_new_pods
from manta.controllers.raycluster.planners.ensure import correct, ensure
from manta.controllers.raycluster.planners.workload import plan_workload
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.containers import Json
from manta.manifests.gang import gang_scheduler, pod_groups
from manta.manifests.gang.members import cluster_gang, pod_group_drift
from manta.manifests.pod_metadata import with_annotations
from manta.manifests.worker_pod import WorkerPodBuilder, group_pod_builder
from manta.reconcile.actions import Create
from manta.reconcile.plan import NOTHING, Plan


def plan_gang(snapshot: ClusterSnapshot) -> Plan:
    """A scheduler that gets Pods before their group would start them one by one."""
    if snapshot.settings.gates.kubernetes_was:
        return plan_workload(snapshot)
    groups, gang = pod_groups(snapshot.settings), cluster_gang(snapshot.cluster)
    if groups is None or not groups.name(gang):
        return NOTHING
    manifest = groups.build(gang)
    live = snapshot.pod_group
    plan = ensure(snapshot, Create(groups.resource, manifest, Cause.POD_GROUP), live)
    if plan != NOTHING or live is None:
        return plan
    why = "the gang has another size now"
    change = pod_group_drift(manifest["spec"], live)
    return correct(snapshot, groups.resource, live, change, Cause.POD_GROUP_DRIFT, why)


def with_gang(snapshot: ClusterSnapshot, pod: Json, group: str) -> Json:
    """The Pod as a member of its gang, if a gang scheduler is configured."""
    scheduler = gang_scheduler(snapshot.settings)
    return scheduler.member_pod(cluster_gang(snapshot.cluster), pod, group) if scheduler else pod


def worker_pod_builder(snapshot: ClusterSnapshot, group: WorkerGroupSpec) -> WorkerPodBuilder:
    """Builds the Pods of one group, as members of their gang."""
    cluster, annotations = cluster_of_new_workers(snapshot), revision_of_new_pods(snapshot)
    builder = group_pod_builder(cluster, group, snapshot.settings)
    marked = with_annotations(builder.metadata, annotations)
    pod = with_gang(snapshot, {"metadata": marked, "spec": builder.spec}, group.group_name)
    return replace(builder, metadata=pod["metadata"], spec=pod["spec"])
