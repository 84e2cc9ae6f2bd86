"""The coscheduling plugin of kubernetes-sigs/scheduler-plugins: a PodGroup with the name of the cluster.

Only clusters with the gang label have one. The gang of a RayJob is its cluster: the submitter starts later and is
scheduled by itself.
"""

from __future__ import annotations

from typing import Final

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import COSCHEDULING_POD_GROUPS
from manta.manifests.containers import Json
from manta.manifests.gang.members import Gang, as_text, with_scheduler
from manta.rules.scaling import gang_members, gang_resources


class CoschedulingGroups:
    resource = COSCHEDULING_POD_GROUPS

    def name(self, gang: Gang) -> str:
        has_one = gang.wants_gang and gang.owner["kind"] == RAY_CLUSTERS.kind
        return gang.metadata.name if has_one else ""

    def build(self, gang: Gang) -> Json:
        return {
            "apiVersion": COSCHEDULING_POD_GROUPS.api_version,
            "kind": COSCHEDULING_POD_GROUPS.kind,
            "metadata": {
                "name": gang.metadata.name,
                "namespace": gang.metadata.namespace,
                "ownerReferences": [gang.owner],
            },
            "spec": {
                "minMember": gang_members(gang.spec),
                "minResources": as_text(gang_resources(gang.spec)),
            },
        }


class SchedulerPlugins:
    pod_groups = CoschedulingGroups()
    supports_scheduling_gates = True

    def member_pod(self, gang: Gang, pod: Json, group: str) -> Json:
        member = gang.wants_gang and group != names.SUBMITTER_GROUP
        labels = {names.LABEL_SCHEDULER_PLUGINS_POD_GROUP: gang.metadata.name}
        return with_scheduler(pod, "scheduler-plugins-scheduler", labels=labels if member else {})

    def cluster_metadata(self, gang: Gang) -> Json:
        return {}


SCHEDULER_PLUGINS: Final = SchedulerPlugins()
