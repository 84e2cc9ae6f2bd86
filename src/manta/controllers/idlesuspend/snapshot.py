"""The snapshot of one RayCluster, on which the pure phases work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.api.core import Pod
from manta.api.ray.cluster import RayCluster
from manta.rules.idle import IdleLimit


@dataclass(frozen=True, slots=True)
class Answer:
    """What Ray said when it was asked last."""

    at: datetime
    head: str
    """The head that answered, as in `IdleSnapshot.head`."""
    in_use: bool = False
    evidence: str = ""
    """Ray's counters, if the cluster is not in use: equal evidence later means no use in between."""
    reason: str = ""
    """What uses the cluster, or the kind of failure, in one CamelCase word."""
    message: str = ""
    previous_at: datetime | None = None
    """When the same head gave the answer before this one."""

    @property
    def is_known(self) -> bool:
        """False: Ray gave no usable answer."""
        return self.in_use or bool(self.evidence)


@dataclass(frozen=True, slots=True)
class Held:
    """What the Pods of the cluster that have a node ask for: one that waits for a GPU holds none."""

    cpus: float = 0.0
    gpus: float = 0.0
    since: datetime | None = None
    """When the last of these Pods got its node, if that is known."""


@dataclass(frozen=True, slots=True)
class IdleSnapshot:
    cluster: RayCluster
    limit: IdleLimit | None
    """None: the cluster is not to be suspended, or no longer."""
    now: datetime
    head_pod: Pod | None = None
    answer: Answer | None = None
    """None: Ray was not asked yet."""
    held: Held = Held()
    violation: str = ""
    """What is wrong with the limit in its annotations. Then there is none."""

    @property
    def annotations(self) -> dict[str, str]:
        return self.cluster.metadata.annotations

    @property
    def head(self) -> str:
        """UID of the head Pod and restarts of its Ray container; empty while that is not ready."""
        pod = self.head_pod
        if pod is None or not pod.spec.containers or pod.metadata.deletion_timestamp is not None:
            return ""
        ray = pod.container_status(pod.spec.containers[0].name)
        return f"{pod.metadata.uid}/{ray.restart_count}" if ray is not None and ray.ready else ""
