"""Builds the snapshot of a RayService from the caches and the latest answers of its dashboards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any, Protocol

import msgspec

from manta.api.core import Pod, Service
from manta.api.meta import Key, View
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.service import RayService, RayServiceSpec, RayServiceStatus
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.caches import (
    BY_SERVICE,
    BY_SERVICE_NAME,
    BY_SERVING_CLUSTER,
    Caches,
)
from manta.controllers.rayservice.facts.clusters import RECHECK_AFTER, pods_to_recheck
from manta.controllers.rayservice.gateway_objects import read_gateway_objects
from manta.controllers.rayservice.serve_answers import ServeAnswers
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.submissions import SubmissionMemory, recorded
from manta.kube.client import Client
from manta.manifests.serve_services import (
    cluster_serve_service_name,
    head_service_name,
    serve_service_name,
)
from manta.rules.serve_config import parse_serve_config
from manta.rules.settings import Settings
from manta.rules.text_cache import LARGE_TEXT_CHARACTERS
from manta.rules.traits import head_service_name as cluster_head_service_name
from manta.rules.traits import is_managed_elsewhere
from manta.rules.validation.service import is_canary, service_violations
from manta.rules.validation.violation import Violation
from manta.runtime.clock import Clock
from manta.runtime.offload import parse_ahead


class _OnlyClusterConfig(View, frozen=True, kw_only=True):
    ray_cluster_config: dict[str, Any] = msgspec.field(default_factory=dict)


class Readings(Protocol):
    """The figures of canaries."""

    def add_to(self, snapshot: ServiceSnapshot) -> ServiceSnapshot: ...

    def forget(self, key: Key) -> None: ...


@dataclass(frozen=True, slots=True)
class Observer:
    caches: Caches
    client: Client
    answers: ServeAnswers
    clock: Clock
    random: Random
    settings: Settings
    submissions: SubmissionMemory
    readings: Readings
    _waiting_since: dict[Key, datetime] = field(default_factory=dict)
    _unmanaged: dict[Key, tuple[datetime, datetime]] = field(default_factory=dict)

    async def observe(self, key: Key) -> ServiceSnapshot | None:
        """None when the object is gone or another operator manages it (C94)."""
        cached = self.caches.ray_services.get(key)
        spec = msgspec.json.decode(cached.spec, type=RayServiceSpec) if cached else None
        if cached is None or spec is None or is_managed_elsewhere(spec.managed_by):
            self.answers.forget(key)
            self.readings.forget(key)
            self._waiting_since.pop(key, None)
            self._unmanaged.pop(key, None)
            self.submissions.keep_only(key, ())
            return None
        await parse_ahead(parse_serve_config, spec.serve_config_v2, LARGE_TEXT_CHARACTERS)
        service = RayService(metadata=cached.metadata, spec=spec, status=cached.status)
        snapshot = self._snapshot(service, cached.spec)
        if await self._recheck_pods(key, pods_to_recheck(snapshot)):
            snapshot = self._snapshot(service, cached.spec)
        endpoints = self._endpoints(snapshot)
        found = await read_gateway_objects(self.caches, self.client, snapshot)
        snapshot = replace(
            snapshot,
            endpoints=endpoints,
            gateway=found.gateway,
            route=found.route,
            gateway_error=found.error,
        )
        return self.readings.add_to(self.answers.add_to(snapshot))

    def begin_again(self) -> None:
        """Another replica leads now: what happens until this one leads again is not known here."""
        self._unmanaged.clear()

    async def _recheck_pods(self, key: Key, pods: tuple[Pod, ...]) -> bool:
        """Read Pods from the API server that have been waited for too long; True if it did."""
        if not pods:
            self._waiting_since.pop(key, None)
            return False
        now = self.clock.now()
        if now - self._waiting_since.setdefault(key, now) < RECHECK_AFTER:
            return False
        self._waiting_since[key] = now
        for pod in pods:
            await self.caches.pods.read(pod.metadata.key, pod.metadata.uid)
        return True

    def _snapshot(self, service: RayService, raw: msgspec.Raw) -> ServiceSnapshot:
        meta, status = service.metadata, service.status
        config = parse_serve_config(service.spec.serve_config_v2)
        clusters, now = self.caches.clusters.by(BY_SERVICE, meta.uid), self.clock.now()
        self.submissions.keep_only(meta.key, [one.metadata.name for one in clusters])
        return ServiceSnapshot(
            service=service,
            settings=self.settings,
            now=now,
            seed=self.random.getrandbits(48),
            violations=service_violations(service, self.settings),
            cluster_spec=msgspec.json.decode(raw, type=_OnlyClusterConfig).ray_cluster_config,
            serve_config={} if isinstance(config, Violation) else config,
            clusters=clusters,
            active=self._view(meta.key, clusters, status.active_service_status),
            pending=self._view(meta.key, clusters, status.pending_service_status),
            head_service=self._owned_service(meta.uid, meta.namespace, head_service_name(service)),
            serve_service=self._owned_service(
                meta.uid, meta.namespace, serve_service_name(service)
            ),
            own_services=self.caches.services.by(BY_SERVICE, meta.uid),
            leaving_pods=self._leaving_pods(service, clusters),
            unmanaged=self._unmanaged.setdefault(
                meta.key, (parse_optional_time(status.last_update_time) or now, now)
            ),
            drops_submissions=self.submissions.is_dropped(meta.key, status),
        )

    def _view(
        self, service: Key, clusters: tuple[RayCluster, ...], side: RayServiceStatus
    ) -> ClusterView | None:
        cluster = next(
            (one for one in clusters if one.metadata.name == side.ray_cluster_name), None
        )
        if cluster is None:
            return None
        key, uid = cluster.metadata.key, cluster.metadata.uid
        pods = [
            pod
            for pod in self.caches.pods.by(BY_SERVING_CLUSTER, str(key))
            if pod.metadata.is_controlled_by(uid)
        ]
        heads = [
            pod for pod in pods if pod.metadata.labels[names.LABEL_NODE_TYPE] == names.NODE_HEAD
        ]
        alive = [pod for pod in heads if pod.metadata.deletion_timestamp is None]
        head_service = Key(key.namespace, cluster_head_service_name(cluster))
        return ClusterView(
            cluster,
            head_pod=next(iter(alive or heads), None),
            pods=tuple(pods),
            head_service=self.caches.services.get(head_service),
            serve_service=self._owned_service(
                uid, key.namespace, cluster_serve_service_name(key.name)
            ),
            submission=self.submissions.latest(service, key.name, recorded(side, cluster)),
        )

    def _leaving_pods(
        self, service: RayService, clusters: tuple[RayCluster, ...]
    ) -> tuple[Pod, ...]:
        """The Pods of clusters that neither serve nor will, also of one that somebody deleted and that was created
        again under its name; only a canary counts them."""
        if not is_canary(service.spec):
            return ()
        sides = (service.status.active_service_status, service.status.pending_service_status)
        kept = {side.ray_cluster_name for side in sides if side.ray_cluster_name}
        there = {one.metadata.name: one.metadata.uid for one in clusters}
        uids = {there.get(name) for name in kept}
        return tuple(
            pod
            for name in sorted(kept | set(there))
            for pod in self.caches.pods.by(
                BY_SERVING_CLUSTER, str(Key(service.metadata.namespace, name))
            )
            if pod.metadata.controller is None or pod.metadata.controller.uid not in uids
        )

    def _owned_service(self, uid: str, namespace: str, name: str) -> Service | None:
        """None for a Service of another owner, which is neither used nor changed (C75)."""
        found = self.caches.services.get(Key(namespace, name))
        return found if found is not None and found.metadata.is_controlled_by(uid) else None

    def _endpoints(self, snapshot: ServiceSnapshot) -> dict[str, frozenset[str]]:
        views = (one for one in (snapshot.active, snapshot.pending) if one is not None)
        services = (snapshot.serve_service, *(one.serve_service for one in views))
        return {one.metadata.name: self._ready_pods(one) for one in services if one is not None}

    def _ready_pods(self, service: Service) -> frozenset[str]:
        """The UIDs of the ready Pods: a dual-stack Pod is in two slices."""
        return frozenset(
            endpoint.target_ref.uid
            for one in self.caches.slices.by(BY_SERVICE_NAME, str(service.metadata.key))
            for endpoint in one.endpoints
            if endpoint.ready and endpoint.target_ref is not None
        )
