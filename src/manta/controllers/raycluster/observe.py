"""Reads the caches into one snapshot. The only room of this controller that looks at the world."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from manta.api.batch import Job
from manta.api.certificates import Certificate
from manta.api.core import PersistentVolumeClaim, Pod, Service, ServiceAccount
from manta.api.meta import Key, Object
from manta.api.networking import Ingress, NetworkPolicy, Route
from manta.api.policy import PodDisruptionBudget
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.rbac import Role, RoleBinding
from manta.api.scheduling import PodGroup
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.draining import head_budget_name
from manta.manifests.gang import gang_group_name
from manta.manifests.gcs_fault_tolerance import claim_name
from manta.manifests.ingress import ingress_name, route_name
from manta.manifests.rbac import rbac_name
from manta.rules.settings import Settings
from manta.rules.traits import (
    StorageBackend,
    autoscaling,
    head_service_name,
    is_managed_elsewhere,
    service_account_name,
    storage_backend,
    tls,
)
from manta.rules.validation.cluster import cluster_violations
from manta.runtime.cache import Named
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer

T = TypeVar("T", bound=Named)

BY_CLUSTER = "ray cluster"
"""Index: objects by the namespace and name of the RayCluster that their label names."""

_RAY_NODES = frozenset({names.NODE_HEAD, names.NODE_WORKER})


def by_cluster(one: Named) -> tuple[str, ...]:
    name = one.metadata.labels.get(names.LABEL_CLUSTER)
    return (str(Key(one.metadata.namespace, name)),) if name else ()


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
    claims: Informer[PersistentVolumeClaim] | None = None
    """Only with the gate for the embedded store."""
    network_policies: Informer[NetworkPolicy] | None = None
    """Only with the gate for network policies."""
    routes: Informer[Route] | None = None
    """Only on OpenShift."""
    issuers: Informer[Object] | None = None
    certificates: Informer[Certificate] | None = None
    """Both only with the gate for mutual TLS, where cert-manager is."""
    pod_groups: Informer[PodGroup] | None = None
    """Only with a gang scheduler that is told by them."""
    budgets: Informer[PodDisruptionBudget] | None = None
    """Empty, and nobody asked, until the first cluster wants its head protected."""


@dataclass(frozen=True, slots=True)
class Observer:
    caches: Caches
    settings: Settings
    clock: Clock
    random: Random

    def observe(self, key: Key) -> ClusterSnapshot | None:
        """None when the object is gone, or another operator looks after it (C94)."""
        cluster = self.caches.clusters.get(key)
        if cluster is None or is_managed_elsewhere(cluster.spec):
            return None
        pods = self.caches.pods.by(BY_CLUSTER, str(key))
        nodes = [pod for pod in pods if pod.metadata.labels[names.LABEL_NODE_TYPE] in _RAY_NODES]
        return ClusterSnapshot(
            **self._surroundings(cluster),
            cluster=cluster,
            settings=self.settings,
            now=self.clock.now(),
            seed=self.random.getrandbits(64),
            violations=cluster_violations(cluster, self.settings),
            pods=tuple(pod for pod in nodes if _belongs_to(cluster, pod)),
            strangers=tuple(pod for pod in nodes if not _belongs_to(cluster, pod)),
            services=self._services(cluster),
            cleanup_jobs=self.caches.cleanup_jobs.by(BY_CLUSTER, str(key)),
        )

    def _surroundings(self, cluster: RayCluster) -> dict[str, Any]:
        """What is looked up by name. Nothing is looked up that this cluster would not have."""
        caches, spec = self.caches, cluster.spec

        def named(name: str) -> Key:
            return Key(cluster.metadata.namespace, name)

        found: dict[str, Any] = {}
        if autoscaling(spec):
            found["service_account"] = caches.service_accounts.get(
                named(service_account_name(cluster))
            )
            found["role"] = caches.roles.get(named(rbac_name(cluster)))
            found["role_binding"] = caches.role_bindings.get(named(rbac_name(cluster)))
        if spec.head_group_spec.enable_ingress:
            found["ingress"] = caches.ingresses.get(named(ingress_name(cluster)))
            if caches.routes is not None:  # an empty cache is false, too
                found["route"] = caches.routes.get(named(route_name(cluster)))
        if caches.network_policies is not None:
            mine = caches.network_policies.by(BY_CLUSTER, str(cluster.metadata.key))
            found["network_policies"] = mine
        if caches.claims is not None and storage_backend(cluster) is StorageBackend.ROCKSDB:
            found["gcs_claim"] = caches.claims.get(named(claim_name(cluster)))
        if tls(spec) and caches.issuers is not None and caches.certificates is not None:
            found["issuers"] = _by_name(caches.issuers.by(BY_CLUSTER, str(cluster.metadata.key)))
            found["certificates"] = _by_name(
                caches.certificates.by(BY_CLUSTER, str(cluster.metadata.key))
            )
        if caches.pod_groups is not None and (group := gang_group_name(cluster, self.settings)):
            found["pod_group"] = caches.pod_groups.get(named(group))
        if caches.budgets is not None:
            found["head_budget"] = caches.budgets.get(named(head_budget_name(cluster)))
            found["knows_budgets"] = caches.budgets.is_filled
        return found

    def _services(self, cluster: RayCluster) -> dict[str, Service]:
        name, namespace = cluster.metadata.name, cluster.metadata.namespace
        wanted = (head_service_name(cluster), f"{name}-headless", f"{name}-serve-svc")
        found = {one: self.caches.services.get(Key(namespace, one)) for one in wanted}
        return {one: service for one, service in found.items() if service is not None}


def _by_name(objects: Iterable[T]) -> dict[str, T]:
    return {one.metadata.name: one for one in objects}


def _belongs_to(cluster: RayCluster, pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is None or owner.uid == cluster.metadata.uid
