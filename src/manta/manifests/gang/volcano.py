"""Volcano: a PodGroup `ray-<name>-pg` that is as large as the gang, and Pods that name it.

The submitter of a RayJob starts when the cluster is ready, so `minMember` does not count it, but `minResources` does.
"""

from __future__ import annotations

from typing import Final

from manta.api.numbers import parse_int32
from manta.api.ray import names
from manta.api.ray.resources import RAY_JOBS
from manta.api.resources import VOLCANO_POD_GROUPS
from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.manifests.containers import Json
from manta.manifests.gang.members import Gang, as_text, with_scheduler
from manta.rules.scaling import gang_members, gang_resources, pod_resources, sum_resources


class VolcanoGroups:
    resource = VOLCANO_POD_GROUPS

    def name(self, gang: Gang) -> str:
        """Empty for the cluster of a RayJob: its Pods join the PodGroup of the RayJob."""
        return "" if _belongs_to_ray_job(gang) else pod_group_name(gang)

    def build(self, gang: Gang) -> Json:
        needed = gang_resources(gang.spec)
        if gang.submitter is not None:
            needed = sum_resources(needed, pod_resources(gang.submitter))
        spec: Json = {"minMember": gang_members(gang.spec), "minResources": as_text(needed)}
        for field, key in (
            ("queue", names.LABEL_VOLCANO_QUEUE),
            ("priorityClassName", names.LABEL_PRIORITY_CLASS),
        ):
            if gang.label(key):
                spec[field] = gang.label(key)
        if topology := _topology(gang):
            spec["networkTopology"] = topology
        return {
            "apiVersion": VOLCANO_POD_GROUPS.api_version,
            "kind": VOLCANO_POD_GROUPS.kind,
            "metadata": {
                "name": pod_group_name(gang),
                "namespace": gang.metadata.namespace,
                "annotations": {
                    key: value
                    for key, value in gang.metadata.annotations.items()
                    if key != ANNOTATION_LAST_APPLIED
                },
                "ownerReferences": [gang.owner],
            },
            "spec": spec,
        }


class Volcano:
    pod_groups = VolcanoGroups()
    supports_scheduling_gates = True

    def member_pod(self, gang: Gang, pod: Json, group: str) -> Json:
        return with_scheduler(
            pod,
            "volcano",
            labels={
                key: gang.label(key)
                for key in (names.LABEL_VOLCANO_QUEUE, names.LABEL_PRIORITY_CLASS)
            },
            annotations={
                names.ANNOTATION_POD_GROUP_NAME: pod_group_name(gang),
                names.ANNOTATION_VOLCANO_TASK: group,
            },
        )

    def cluster_metadata(self, gang: Gang) -> Json:
        return {}


def pod_group_name(gang: Gang) -> str:
    """The name of the PodGroup; for the cluster of a RayJob, the PodGroup of the RayJob."""
    name = gang.metadata.name
    if _belongs_to_ray_job(gang):
        name = gang.label(names.LABEL_ORIGIN_NAME) or name
    return f"ray-{name}-pg"


def _belongs_to_ray_job(gang: Gang) -> bool:
    return gang.label(names.LABEL_ORIGIN_KIND) == RAY_JOBS.kind


def _topology(gang: Gang) -> Json:
    mode = gang.label(names.LABEL_VOLCANO_TOPOLOGY_MODE)
    if not mode:
        return {}
    tier = gang.label(names.LABEL_VOLCANO_TOPOLOGY_TIER)
    highest = parse_int32(tier)  # validated in rules/validation/gang.py
    return {"mode": mode} | ({} if highest is None else {"highestTierAllowed": highest})


VOLCANO: Final = Volcano()
