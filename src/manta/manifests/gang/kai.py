"""KAI: groups Pods by itself; they only need its scheduler name and the queue."""

from __future__ import annotations

from typing import Final

from manta.api.ray import names
from manta.manifests.containers import Json
from manta.manifests.gang.members import Gang, with_scheduler


class Kai:
    pod_groups = None
    supports_scheduling_gates = True

    def member_pod(self, gang: Gang, pod: Json, group: str) -> Json:
        queue = {names.LABEL_KAI_QUEUE: gang.label(names.LABEL_KAI_QUEUE)}
        return with_scheduler(pod, "kai-scheduler", labels=queue)

    def cluster_metadata(self, gang: Gang) -> Json:
        return {}


KAI: Final = Kai()
