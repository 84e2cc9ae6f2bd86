"""Reads the caches into one snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from manta.api.core import Pod, Service
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.controllers.raycluster.caches import Caches
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.draining import head_pdb_name
from manta.manifests.gang import gang_group_name
from manta.manifests.gang.kubernetes_was import pod_group_name
from manta.manifests.gcs_fault_tolerance import claim_name
from manta.manifests.ingress import ingress_name, route_name
from manta.manifests.rbac import rbac_name
from manta.rules.rolling_update import rolling_update
from manta.rules.selection import BY_CLUSTER
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

T = TypeVar("T", bound=Named)

_RAY_NODES = frozenset({names.NODE_HEAD, names.NODE_WORKER})


@dataclass(frozen=True, slots=True)
class Observer:
    caches: Caches
    settings: Settings
    clock: Clock
    random: Random

    def observe(self, key: Key) -> ClusterSnapshot | None:
        """None when the object is gone, or another operator manages it (C94)."""
        cluster = self.caches.clusters.get(key)
        if cluster is None or is_managed_elsewhere(cluster.spec.managed_by):
            return None
        pods = self.caches.pods.by(BY_CLUSTER, str(key))
        nodes = [pod for pod in pods if pod.metadata.labels[names.LABEL_NODE_TYPE] in _RAY_NODES]
        return ClusterSnapshot(
            **self._related_objects(cluster),
            cluster=cluster,
            settings=self.settings,
            now=self.clock.now(),
            seed=self.random.getrandbits(64),
            violations=cluster_violations(cluster, self.settings),
            pods=tuple(pod for pod in nodes if _belongs_to(cluster, pod)),
            foreign_pods=tuple(pod for pod in nodes if not _belongs_to(cluster, pod)),
            services=self._services(cluster),
            cleanup_jobs=self.caches.cleanup_jobs.by(BY_CLUSTER, str(key)),
        )

    def _related_objects(self, cluster: RayCluster) -> dict[str, Any]:
        """Objects that are looked up by name, if this cluster can have them."""
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
            if caches.routes is not None:  # an empty cache is falsy
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
        found |= self._gang(cluster)
        if rolling_update(cluster) is not None:
            listed = caches.revisions.has_synced
            found["revisions"] = caches.revisions.by(BY_CLUSTER, str(cluster.metadata.key))
            found["revisions_listed"] = listed
            found["revisions_error"] = "" if listed else caches.revisions.watch_error or ""
        if caches.pdbs is not None:
            found["head_pdb"] = caches.pdbs.get(named(head_pdb_name(cluster)))
            found["pdbs_listed"] = caches.pdbs.has_synced
        return found

    def _gang(self, cluster: RayCluster) -> dict[str, Any]:
        """What represents the Pods of this cluster for a gang scheduler."""
        caches, meta = self.caches, cluster.metadata
        found: dict[str, Any] = {}
        if caches.pod_groups is not None and (name := gang_group_name(cluster, self.settings)):
            found["pod_group"] = caches.pod_groups.get(Key(meta.namespace, name))
        if caches.workloads is not None and caches.workload_groups is not None:
            group = Key(meta.namespace, pod_group_name(meta.name))
            found["workload"] = caches.workloads.get(meta.key)
            found["workload_group"] = caches.workload_groups.get(group)
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
