"""All that a round of the RayCluster controller may know, in one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from manta.api.batch import Job
from manta.api.certificates import Certificate
from manta.api.conditions import is_true
from manta.api.core import (
    PersistentVolumeClaim,
    Pod,
    Service,
    ServiceAccount,
)
from manta.api.meta import Object
from manta.api.networking import Ingress, NetworkPolicy, Route
from manta.api.policy import PodDisruptionBudget
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.rbac import Role, RoleBinding
from manta.api.scheduling import PodGroup
from manta.rules.pod_health import is_ready, is_terminating
from manta.rules.settings import Settings
from manta.rules.suffix import suffix
from manta.rules.traits import submits_beside_head
from manta.rules.validation.violation import Violation


@dataclass(frozen=True)
class ClusterSnapshot:
    """`pods` are the ray Pods of this very object: controlled by its UID, or by nobody."""

    cluster: RayCluster
    settings: Settings
    now: datetime
    seed: int
    """Drawn anew for every round; names of new Pods derive from it and from nothing else."""
    violations: tuple[Violation, ...] = ()
    pods: tuple[Pod, ...] = ()
    strangers: tuple[Pod, ...] = ()
    """Pods with this cluster's labels that someone else controls: an earlier object of this name."""
    services: Mapping[str, Service] = field(default_factory=dict)
    service_account: ServiceAccount | None = None
    role: Role | None = None
    role_binding: RoleBinding | None = None
    ingress: Ingress | None = None
    route: Route | None = None
    network_policies: tuple[NetworkPolicy, ...] = ()
    head_budget: PodDisruptionBudget | None = None
    knows_budgets: bool = True
    """False until they have been listed: then none was seen, which does not say that none is."""
    gcs_claim: PersistentVolumeClaim | None = None
    pod_group: PodGroup | None = None
    issuers: Mapping[str, Object] = field(default_factory=dict)
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    cleanup_jobs: tuple[Job, ...] = ()
    lost_nodes: Mapping[str, str] = field(default_factory=dict)
    """Nodes of stuck Pods that run nothing any more, and why that is known."""

    @cached_property
    def head_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if _label(pod, names.LABEL_NODE_TYPE) == "head")

    @cached_property
    def head(self) -> Pod | None:
        """The head Pod that serves, or will: a living one before one that is being deleted."""
        return min(
            self.head_pods, key=lambda pod: (is_terminating(pod), not is_ready(pod)), default=None
        )

    @cached_property
    def worker_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if _label(pod, names.LABEL_NODE_TYPE) == "worker")

    @cached_property
    def workers_by_group(self) -> Mapping[str, tuple[Pod, ...]]:
        groups: dict[str, list[Pod]] = {}
        for pod in self.worker_pods:
            groups.setdefault(_label(pod, names.LABEL_GROUP), []).append(pod)
        return {group: tuple(pods) for group, pods in groups.items()}

    @property
    def submits_beside_head(self) -> bool:
        return submits_beside_head(self.cluster)

    @property
    def is_being_deleted(self) -> bool:
        return self.cluster.metadata.deletion_timestamp is not None

    @property
    def is_edited(self) -> bool:
        """An edit makes a new generation. A CRD of before, which hides fields that are there, does
        not: what is missing then must cost no Pod."""
        return self.cluster.status.observed_generation != self.cluster.metadata.generation

    @property
    def is_resting(self) -> bool:
        """Suspended and meant to be: there is nothing to look after (C32)."""
        return self.condition(ClusterConditionType.SUSPENDED) and bool(self.cluster.spec.suspend)

    def condition(self, type_: str) -> bool:
        """Whether this condition was True when the status was last written."""
        return is_true(self.cluster.status.conditions, type_)

    def suffix(self, *what: object) -> str:
        """Five characters for a name: equal for equal arguments within a round."""
        return suffix(self.seed, self.cluster.metadata.uid, *what)


def _label(pod: Pod, key: str) -> str:
    return pod.metadata.labels.get(key, "")
