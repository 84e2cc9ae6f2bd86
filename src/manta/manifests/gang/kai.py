"""KAI: groups Pods by itself; it needs its name on them, and the queue."""

from __future__ import annotations

from typing import Final

from manta.api.ray import names
from manta.manifests.containers import Json
from manta.manifests.gang.members import Leader, joined


class Kai:
    pod_groups = None
    knows_gates = True

    def mark(self, leader: Leader, pod: Json, group: str) -> Json:
        queue = {names.LABEL_KAI_QUEUE: leader.label(names.LABEL_KAI_QUEUE)}
        return joined(pod, "kai-scheduler", labels=queue)

    def cluster_marks(self, leader: Leader) -> Json:
        return {}


KAI: Final = Kai()
