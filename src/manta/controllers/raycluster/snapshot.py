"""The snapshot of a RayCluster, on which its pure phases work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from manta.api.batch import Job
from manta.api.certificates import Certificate
from manta.api.conditions import is_true
from manta.api.core import PersistentVolumeClaim, Pod, Service, ServiceAccount
from manta.api.meta import Object
from manta.api.networking import Ingress, NetworkPolicy, Route
from manta.api.policy import PodDisruptionBudget
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.rbac import Role, RoleBinding
from manta.api.revisions import ControllerRevision
from manta.api.scheduling import PodGroup, Workload, WorkloadPodGroup
from manta.rules.pod_health import is_ready, is_terminating
from manta.rules.rolling_update import rolling_update
from manta.rules.settings import Settings
from manta.rules.suffix import suffix
from manta.rules.traits import submits_beside_head
from manta.rules.validation.violation import Violation

if TYPE_CHECKING:
    from manta.controllers.raycluster.rollout.state import Rollout


@dataclass(frozen=True)
class ClusterSnapshot:
    """`pods` are the Ray Pods that this object controls, or that have no controller."""

    cluster: RayCluster
    settings: Settings
    now: datetime
    seed: int
    """Random for every snapshot; the names of new Pods are derived from it."""
    violations: tuple[Violation, ...] = ()
    pods: tuple[Pod, ...] = ()
    foreign_pods: tuple[Pod, ...] = ()
    """Pods with this cluster's labels that an earlier object of this name controls."""
    services: Mapping[str, Service] = field(default_factory=dict)
    service_account: ServiceAccount | None = None
    role: Role | None = None
    role_binding: RoleBinding | None = None
    ingress: Ingress | None = None
    route: Route | None = None
    network_policies: tuple[NetworkPolicy, ...] = ()
    head_pdb: PodDisruptionBudget | None = None
    pdbs_listed: bool = True
    """False until they have been listed: then a missing PodDisruptionBudget may exist."""
    gcs_claim: PersistentVolumeClaim | None = None
    pod_group: PodGroup | None = None
    workload: Workload | None = None
    workload_group: WorkloadPodGroup | None = None
    issuers: Mapping[str, Object] = field(default_factory=dict)
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    cleanup_jobs: tuple[Job, ...] = ()
    revisions: tuple[ControllerRevision, ...] = ()
    """The ControllerRevisions of a RayCluster of this name; read only for a rolling update."""
    revisions_listed: bool = True
    """False until they have been listed: then a missing one may exist."""
    revisions_error: str = ""
    """Why they cannot be listed."""
    tasks_left: Mapping[str, int] = field(default_factory=dict)
    """Running tasks of workers that drain, where Ray's dashboard answers."""
    lost_nodes: Mapping[str, str] = field(default_factory=dict)
    """Nodes of stuck Pods that no longer run anything, and the reason."""
    unnamed_head: str = ""
    """The last head, if it was lost before the status named it."""

    @cached_property
    def head_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if _label(pod, names.LABEL_NODE_TYPE) == "head")

    @cached_property
    def head(self) -> Pod | None:
        """The head Pod; one that is not being deleted comes first."""
        return min(
            self.head_pods, key=lambda pod: (is_terminating(pod), not is_ready(pod)), default=None
        )

    @cached_property
    def rollout(self) -> Rollout | None:
        """Where a rolling update stands; None when none is asked for, or its revisions are unknown."""
        if rolling_update(self.cluster) is None:
            return None
        from manta.controllers.raycluster.rollout.state import rollout_of

        return rollout_of(self)

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
        """An older CRD prunes fields without bumping the generation. Never delete Pods because a
        field is missing."""
        return self.cluster.status.observed_generation != self.cluster.metadata.generation

    @property
    def is_suspended(self) -> bool:
        """Suspended, and not about to resume: there is nothing to do (C32)."""
        return self.condition(ClusterConditionType.SUSPENDED) and bool(self.cluster.spec.suspend)

    def condition(self, type_: str) -> bool:
        """Whether this condition was True when the status was last written."""
        return is_true(self.cluster.status.conditions, type_)

    def suffix(self, *what: object) -> str:
        """Five characters for a name; equal for equal arguments in one snapshot."""
        return suffix(self.seed, self.cluster.metadata.uid, *what)


def _label(pod: Pod, key: str) -> str:
    return pod.metadata.labels.get(key, "")
