"""Volcano: a PodGroup `ray-<name>-pg` that is as large as the gang, and Pods that name it.

The submitter of a RayJob starts when the cluster is ready. So it is no member that the others
wait for, but the room that it needs is part of the gang's.
"""

from __future__ import annotations

from typing import Final

from manta.api.numbers import parse_int32
from manta.api.ray import names
from manta.api.ray.resources import RAY_JOBS
from manta.api.resources import VOLCANO_POD_GROUPS
from manta.manifests.containers import Json
from manta.manifests.gang.members import Leader, as_text, joined
from manta.rules.scaling import added, gang_members, gang_resources, pod_resources

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class VolcanoGroups:
    resource = VOLCANO_POD_GROUPS

    def name(self, leader: Leader) -> str:
        """The Pods of a RayJob's cluster are in the RayJob's group: the cluster has none."""
        return "" if _is_of_a_job(leader) else pod_group_name(leader)

    def build(self, leader: Leader) -> Json:
        needed = gang_resources(leader.spec)
        if leader.submitter is not None:
            needed = added(needed, pod_resources(leader.submitter))
        spec: Json = {"minMember": gang_members(leader.spec), "minResources": as_text(needed)}
        for field, key in (
            ("queue", names.LABEL_VOLCANO_QUEUE),
            ("priorityClassName", names.LABEL_PRIORITY_CLASS),
        ):
            if leader.label(key):
                spec[field] = leader.label(key)
        if topology := _topology(leader):
            spec["networkTopology"] = topology
        return {
            "apiVersion": VOLCANO_POD_GROUPS.api_version,
            "kind": VOLCANO_POD_GROUPS.kind,
            "metadata": {
                "name": pod_group_name(leader),
                "namespace": leader.metadata.namespace,
                "annotations": {
                    key: value
                    for key, value in leader.metadata.annotations.items()
                    if key != _LAST_APPLIED
                },
                "ownerReferences": [leader.owner],
            },
            "spec": spec,
        }


class Volcano:
    pod_groups = VolcanoGroups()
    knows_gates = True

    def mark(self, leader: Leader, pod: Json, group: str) -> Json:
        return joined(
            pod,
            "volcano",
            labels={
                key: leader.label(key)
                for key in (names.LABEL_VOLCANO_QUEUE, names.LABEL_PRIORITY_CLASS)
            },
            annotations={
                names.ANNOTATION_POD_GROUP_NAME: pod_group_name(leader),
                names.ANNOTATION_VOLCANO_TASK: group,
            },
        )

    def cluster_marks(self, leader: Leader) -> Json:
        return {}


def pod_group_name(leader: Leader) -> str:
    """Of the RayJob, for the Pods of its cluster too."""
    name = leader.metadata.name
    if _is_of_a_job(leader):
        name = leader.label(names.LABEL_ORIGIN_NAME) or name
    return f"ray-{name}-pg"


def _is_of_a_job(leader: Leader) -> bool:
    return leader.label(names.LABEL_ORIGIN_KIND) == RAY_JOBS.kind


def _topology(leader: Leader) -> Json:
    mode = leader.label(names.LABEL_VOLCANO_TOPOLOGY_MODE)
    if not mode:
        return {}
    tier = leader.label(names.LABEL_VOLCANO_TOPOLOGY_TIER)
    highest = parse_int32(tier)  # validated in rules/validation/gang.py
    return {"mode": mode} | ({} if highest is None else {"highestTierAllowed": highest})


VOLCANO: Final = Volcano()
