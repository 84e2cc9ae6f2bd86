"""The snapshot of a ReplicaSet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.localplane.builtin.owned_pods import selects
from manta.localplane.builtin.views import Pod, ReplicaSet


@dataclass(frozen=True, slots=True)
class ReplicaSetSnapshot:
    replica_set: ReplicaSet
    pods: tuple[Pod, ...]
    """The Pods that it controls."""
    orphans: tuple[Pod, ...]
    """Pods of the namespace without a controller."""
    now: datetime

    @property
    def replicas(self) -> tuple[Pod, ...]:
        """The Pods that count: own, wanted by the selector, neither ended nor going."""
        return tuple(pod for pod in self.pods if pod.is_active and selects(self.replica_set, pod))
