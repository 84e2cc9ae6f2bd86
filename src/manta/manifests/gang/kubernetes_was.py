"""Kubernetes 1.36 itself (gate KubernetesWAS): a Workload, its PodGroup, and Pods that name the group.

As in KubeRay, the head and all workers of a RayCluster are one gang if the gang label is `true` and the cluster has
no autoscaler. The submitter of a RayJob starts later and is scheduled by itself.
"""

from __future__ import annotations

from typing import Final

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import WORKLOAD_POD_GROUPS, WORKLOADS, Resource
from manta.api.scheduling import SchedulingPolicy, Workload, WorkloadPodGroup
from manta.manifests.containers import Json
from manta.manifests.gang.members import Gang, with_scheduler
from manta.rules.scaling import gang_members
from manta.rules.traits import autoscaling

TEMPLATE: Final = "cluster"


class KubernetesWas:
    pod_groups = None
    """A Workload and a PodGroup cannot be resized; they have a planner of their own."""
    supports_scheduling_gates = True

    def member_pod(self, gang: Gang, pod: Json, group: str) -> Json:
        if not is_workload(gang):
            return pod
        member = with_scheduler(pod, "default-scheduler")
        reference = {"podGroupName": pod_group_name(gang.metadata.name)}
        return {**member, "spec": {**member["spec"], "schedulingGroup": reference}}

    def cluster_metadata(self, gang: Gang) -> Json:
        return {}


def is_workload(gang: Gang) -> bool:
    """Whether Kubernetes schedules this gang as a whole."""
    return (
        gang.owner["kind"] == RAY_CLUSTERS.kind
        and gang.label(names.LABEL_GANG_SCHEDULING).lower() == "true"
        and not autoscaling(gang.spec)
    )


def pod_group_name(cluster: str) -> str:
    return f"{cluster}-{TEMPLATE}"


def build_workload(gang: Gang) -> Json:
    name = gang.metadata.name
    controller = {"apiGroup": RAY_CLUSTERS.group, "kind": RAY_CLUSTERS.kind, "name": name}
    template = {"name": TEMPLATE, "schedulingPolicy": _policy(gang)}
    spec = {"controllerRef": controller, "podGroupTemplates": [template]}
    return _document(WORKLOADS, name, gang, spec)


def build_pod_group(gang: Gang) -> Json:
    name = gang.metadata.name
    reference = {"workloadName": name, "podGroupTemplateName": TEMPLATE}
    spec = {"podGroupTemplateRef": {"workload": reference}, "schedulingPolicy": _policy(gang)}
    return _document(WORKLOAD_POD_GROUPS, pod_group_name(name), gang, spec)


def workload_fits(gang: Gang, live: Workload) -> bool:
    """Whether a live Workload has the template and size of this gang."""
    templates = live.spec.pod_group_templates
    return [one.name for one in templates] == [TEMPLATE] and _fits(
        gang, templates[0].scheduling_policy
    )


def pod_group_fits(gang: Gang, live: WorkloadPodGroup) -> bool:
    """Whether a live PodGroup has the size of this gang."""
    return _fits(gang, live.spec.scheduling_policy)


def _fits(gang: Gang, policy: SchedulingPolicy) -> bool:
    return policy.gang is not None and policy.gang.min_count == gang_members(gang.spec)


def _policy(gang: Gang) -> Json:
    return {"gang": {"minCount": gang_members(gang.spec)}}


def _document(resource: Resource, name: str, gang: Gang, spec: Json) -> Json:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": gang.metadata.namespace,
            "labels": {names.LABEL_CLUSTER: gang.metadata.name},
            "ownerReferences": [gang.owner],
        },
        "spec": spec,
    }


KUBERNETES_WAS: Final = KubernetesWas()
