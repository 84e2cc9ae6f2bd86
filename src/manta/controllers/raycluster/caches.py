"""The caches that the RayCluster controller reads, and which objects they select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manta.api.batch import Job
from manta.api.certificates import Certificate
from manta.api.core import PersistentVolumeClaim, Pod, Service, ServiceAccount
from manta.api.meta import Object
from manta.api.networking import Ingress, NetworkPolicy, Route
from manta.api.policy import PodDisruptionBudget
from manta.api.ray.cluster import RayCluster
from manta.api.rbac import Role, RoleBinding
from manta.api.resources import (
    CERTIFICATES,
    CONTROLLER_REVISIONS,
    INGRESSES,
    ISSUERS,
    JOBS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SERVICE_ACCOUNTS,
    SERVICES,
    WORKLOAD_POD_GROUPS,
    WORKLOADS,
    Resource,
)
from manta.api.revisions import ControllerRevision
from manta.api.scheduling import PodGroup, Workload, WorkloadPodGroup
from manta.manifests.gang import pod_groups
from manta.rules.selection import CLEANUP_JOBS, OF_A_CLUSTER, RAY_PODS
from manta.rules.settings import Settings
from manta.runtime.informer import Informer


@dataclass(frozen=True, slots=True)
class Caches:
    clusters: Informer[RayCluster]
    pods: Informer[Pod]
    services: Informer[Service]
    cleanup_jobs: Informer[Job]
    service_accounts: Informer[ServiceAccount]
    roles: Informer[Role]
    role_bindings: Informer[RoleBinding]
    ingresses: Informer[Ingress]
    pdbs: Informer[PodDisruptionBudget]
    revisions: Informer[ControllerRevision]
    claims: Informer[PersistentVolumeClaim] | None = None
    network_policies: Informer[NetworkPolicy] | None = None
    routes: Informer[Route] | None = None
    issuers: Informer[Object] | None = None
    certificates: Informer[Certificate] | None = None
    pod_groups: Informer[PodGroup] | None = None
    workloads: Informer[Workload] | None = None
    workload_groups: Informer[WorkloadPodGroup] | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of one cache."""

    resource: Resource
    view: type[Any]
    labels: str = ""
    indexed: bool = False
    """Has the index BY_CLUSTER."""
    on_demand: bool = False
    """Watched from the first cluster on that needs it."""
    optional: bool = False
    """A preview works without it, if the user may not list it."""


def selections(settings: Settings) -> dict[str, Selection]:
    """The caches of the objects around a RayCluster, by their name in `Caches`.

    Service accounts and claims may be the user's, without our labels.
    """
    gates = settings.gates
    found = {
        "pods": Selection(PODS, Pod, RAY_PODS, indexed=True),
        "services": Selection(SERVICES, Service),
        "cleanup_jobs": Selection(JOBS, Job, CLEANUP_JOBS, indexed=True),
        "service_accounts": Selection(SERVICE_ACCOUNTS, ServiceAccount),
        "roles": Selection(ROLES, Role, OF_A_CLUSTER),
        "role_bindings": Selection(ROLE_BINDINGS, RoleBinding, OF_A_CLUSTER),
        "ingresses": Selection(INGRESSES, Ingress, OF_A_CLUSTER),
        "pdbs": Selection(
            POD_DISRUPTION_BUDGETS, PodDisruptionBudget, OF_A_CLUSTER, on_demand=True, optional=True
        ),
    }
    found["revisions"] = Selection(
        CONTROLLER_REVISIONS,
        ControllerRevision,
        OF_A_CLUSTER,
        indexed=True,
        on_demand=True,
        optional=True,
    )
    if gates.gcs_fault_tolerance_embedded_storage:
        found["claims"] = Selection(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
    if gates.ray_cluster_network_policy:
        policies = Selection(NETWORK_POLICIES, NetworkPolicy, OF_A_CLUSTER, indexed=True)
        found["network_policies"] = policies
    if settings.openshift:
        found["routes"] = Selection(ROUTES, Route, OF_A_CLUSTER)
    if gates.ray_cluster_mtls and settings.cert_manager:
        found["issuers"] = Selection(ISSUERS, Object, OF_A_CLUSTER, indexed=True)
        found["certificates"] = Selection(CERTIFICATES, Certificate, OF_A_CLUSTER, indexed=True)
    if (groups := pod_groups(settings)) is not None:
        found["pod_groups"] = Selection(groups.resource, PodGroup, optional=True)
    if gates.kubernetes_was:
        found["workloads"] = Selection(WORKLOADS, Workload, optional=True)
        found["workload_groups"] = Selection(WORKLOAD_POD_GROUPS, WorkloadPodGroup, optional=True)
    return found
