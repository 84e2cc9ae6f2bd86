"""All that a round about one ReplicaSet may know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from manta.api import selectors
from manta.api.times import parse_time
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


def selects(replica_set: ReplicaSet, pod: Pod) -> bool:
    selector = selectors.from_object(replica_set.spec.selector)
    return bool(replica_set.spec.selector) and selector.matches(pod.metadata.labels)


def available_in(pod: Pod, min_ready_seconds: int, now: datetime) -> timedelta | None:
    """How long until the Pod counts as available; None while it is not ready."""
    ready = pod.condition("Ready")
    if ready is None or ready.status != "True":
        return None
    if not min_ready_seconds or not ready.last_transition_time:
        return timedelta(0)
    since = parse_time(ready.last_transition_time)
    return max(since + timedelta(seconds=min_ready_seconds) - now, timedelta(0))
