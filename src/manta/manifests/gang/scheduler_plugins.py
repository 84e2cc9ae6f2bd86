"""The coscheduling plugin of kubernetes-sigs/scheduler-plugins: a PodGroup named as the cluster.

Only clusters that bear the gang label have one. A RayJob's gang is its cluster's: the submitter
starts later, and is scheduled by itself.
"""

from __future__ import annotations

from typing import Final

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import COSCHEDULING_POD_GROUPS
from manta.manifests.containers import Json
from manta.manifests.gang.members import Leader, as_text, joined
from manta.rules.scaling import gang_members, gang_resources


class CoschedulingGroups:
    resource = COSCHEDULING_POD_GROUPS

    def name(self, leader: Leader) -> str:
        has_one = leader.wants_gang and leader.owner["kind"] == RAY_CLUSTERS.kind
        return leader.metadata.name if has_one else ""

    def build(self, leader: Leader) -> Json:
        return {
            "apiVersion": COSCHEDULING_POD_GROUPS.api_version,
            "kind": COSCHEDULING_POD_GROUPS.kind,
            "metadata": {
                "name": leader.metadata.name,
                "namespace": leader.metadata.namespace,
                "ownerReferences": [leader.owner],
            },
            "spec": {
                "minMember": gang_members(leader.spec),
                "minResources": as_text(gang_resources(leader.spec)),
            },
        }


class SchedulerPlugins:
    pod_groups = CoschedulingGroups()
    knows_gates = True

    def mark(self, leader: Leader, pod: Json, group: str) -> Json:
        member = leader.wants_gang and group != names.SUBMITTER_GROUP
        labels = {names.LABEL_SCHEDULER_PLUGINS_POD_GROUP: leader.metadata.name}
        return joined(pod, "scheduler-plugins-scheduler", labels=labels if member else {})

    def cluster_marks(self, leader: Leader) -> Json:
        return {}


SCHEDULER_PLUGINS: Final = SchedulerPlugins()
