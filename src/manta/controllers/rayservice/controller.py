"""The RayService controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from manta.api.core import Pod, Service
from manta.api.discovery import EndpointSlice
from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key, ObjectMeta
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayServiceStatuses
from manta.api.resources import ENDPOINT_SLICES, GATEWAYS, HTTP_ROUTES, PODS, SERVICES
from manta.api.well_known import LABEL_SERVICE_NAME
from manta.controllers.rayservice import metrics
from manta.controllers.rayservice.caches import (
    BY_SERVICE,
    BY_SERVICE_NAME,
    BY_SERVING_CLUSTER,
    SERVE_SLICES,
    CachedRayService,
    Caches,
    by_service,
    by_service_name,
    by_serving_cluster,
)
from manta.controllers.rayservice.canary_readings import CanaryReadings
from manta.controllers.rayservice.dashboard_client import (
    DashboardClient,
    DashboardError,
    ServeQueryResult,
)
from manta.controllers.rayservice.dashboard_query import dashboard_query
from manta.controllers.rayservice.events import CONTROLLER
from manta.controllers.rayservice.observe import Observer
from manta.controllers.rayservice.plan import plan
from manta.controllers.rayservice.probing import ProxyProbes
from manta.controllers.rayservice.serve_answers import ServeAnswers, WatchKey
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.status import next_status
from manta.controllers.rayservice.status_events import status_events
from manta.controllers.rayservice.submissions import SubmissionMemory
from manta.ray.dashboard import Dashboard
from manta.ray.models import Unreachable
from manta.ray.poller import DashboardPoller, PollInterval
from manta.reconcile.actions import Call
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.rules.selection import RAY_PODS
from manta.rules.settings import Settings
from manta.runtime.controller import Watch, mapped_keys, own_key, owner_keys
from manta.runtime.manager import Manager

WORKERS = 64
"""Many, because a worker waits for the dashboard while it submits a config."""

POLL_INTERVAL = PollInterval(fast=0.15, slow=25.0)
"""Fast while a change is expected, so that traffic switches soon after the last application starts.
Otherwise one request to the dashboard every 25 s, and one to the Serve proxy every 2.5 s (`probing`)."""


class RayServiceReconciler(Reconciler[ServiceSnapshot, RayServiceStatuses]):
    name = CONTROLLER
    workers = WORKERS

    def __init__(self, manager: Manager, settings: Settings, dashboard: Dashboard) -> None:
        self._caches = _caches(manager, settings)
        self.subjects = self._caches.ray_services
        through_api_server = settings.use_kubernetes_proxy
        self._dashboard_client = DashboardClient(
            dashboard,
            manager.client,
            through_api_server=through_api_server,
            prometheus_address=settings.prometheus_address,
        )
        self._submissions = SubmissionMemory()
        poller: DashboardPoller[WatchKey, ServeQueryResult] = DashboardPoller(
            self._enqueue, POLL_INTERVAL, failed=self._unanswered
        )
        probes = ProxyProbes(
            self._enqueue,
            self._dashboard_client.proxy_healthy,
            self._count,
            through_api_server=through_api_server,
        )
        readings = CanaryReadings(
            self._enqueue,
            self._dashboard_client.metrics,
            self._dashboard_client.ask_prometheus,
            self._count,
            manager.clock,
        )
        self._observer = Observer(
            self._caches,
            manager.client,
            ServeAnswers(poller, self._dashboard_client.query_dashboard, probes),
            manager.clock,
            manager.random,
            settings,
            self._submissions,
            readings,
        )
        super().__init__(manager)
        manager.add_service("RayService dashboard polling", poller.run)
        manager.add_service("probes of Serve proxies", probes.run)
        manager.add_service("figures of canaries", lambda: self._read_figures(readings))
        for close in (
            poller.close,
            probes.close,
            readings.close,
            self._submissions.clear,
            self._observer.begin_again,
        ):
            manager.on_leadership_lost(close)
        if settings.enable_metrics:
            metrics.register(manager.registry, self._caches.ray_services)

    async def _read_figures(self, readings: CanaryReadings) -> None:
        try:
            await readings.run()
        finally:
            await self._dashboard_client.close()

    def _enqueue(self, subject: WatchKey) -> None:
        self.controller.enqueue(subject.service)

    def _unanswered(self, error: Exception) -> ServeQueryResult:
        return ServeQueryResult(Unreachable(self.controller.poll_failed(error)))

    def _count(self, error: Exception) -> None:
        """A probe or a reading that raised proves nothing about a Pod: what was known of it stays."""
        self.controller.poll_failed(error)

    def watches(self) -> Sequence[Watch[Any]]:
        caches, owned = self._caches, owner_keys(RAY_SERVICES.kind, RAY_SERVICES.group)
        return (
            Watch(caches.ray_services, own_key),
            Watch(caches.clusters, owned),
            Watch(caches.services, owned),
            Watch(caches.pods, mapped_keys(lambda pod: _service_of_pod(caches, pod))),
            Watch(caches.services, mapped_keys(lambda one: _service_of_serve_service(caches, one))),
            Watch(caches.slices, mapped_keys(lambda one: _service_of_slice(caches, one))),
            *(Watch(one, owned) for one in (caches.gateways, caches.routes) if one is not None),
        )

    async def observe(self, key: Key) -> ServiceSnapshot | None:
        return await self._observer.observe(key)

    def subject(self, snapshot: ServiceSnapshot) -> Subject:
        return Subject(RAY_SERVICES, snapshot.service.metadata, snapshot.status)

    def plan(self, snapshot: ServiceSnapshot) -> Step[RayServiceStatuses]:
        return plan(snapshot)

    async def call(self, snapshot: ServiceSnapshot, action: Call) -> Mapping[str, Any]:
        """Submit the Serve config. Raises DashboardError."""
        view = snapshot.view_of(action.arguments["cluster"])
        query = dashboard_query(snapshot, view) if view is not None else None
        if view is None or query is None:
            raise DashboardError("there is no head to submit to")
        await self._dashboard_client.submit(query, action.arguments["config"])
        key = snapshot.service.metadata.key
        self._submissions.keep(key, view.name, action.arguments["submission"])
        return {}

    def next_status(
        self, snapshot: ServiceSnapshot, step: Step[RayServiceStatuses], outcome: Outcome
    ) -> RayServiceStatuses | None:
        is_deleted = snapshot.service.metadata.deletion_timestamp is not None
        return None if is_deleted else next_status(snapshot, step, outcome)

    def status_events(
        self, snapshot: ServiceSnapshot, status: RayServiceStatuses | None, outcome: Outcome
    ) -> Iterable[Event]:
        del outcome
        return status_events(snapshot, status) if status is not None else ()

    def remember(
        self, snapshot: ServiceSnapshot, outcome: Outcome, written: RayServiceStatuses | None
    ) -> None:
        del outcome
        if written is not None:
            self._submissions.wrote(snapshot.service.metadata.key, written)


def build(manager: Manager, settings: Settings, dashboard: Dashboard) -> None:
    RayServiceReconciler(manager, settings, dashboard)


def _caches(manager: Manager, settings: Settings) -> Caches:
    incremental = settings.gates.ray_service_incremental_upgrade
    return Caches(
        ray_services=manager.informer(RAY_SERVICES, CachedRayService),
        clusters=manager.informer(RAY_CLUSTERS, RayCluster, indexes={BY_SERVICE: by_service}),
        pods=manager.informer(
            PODS, Pod, labels=RAY_PODS, indexes={BY_SERVING_CLUSTER: by_serving_cluster}
        ),
        services=manager.informer(SERVICES, Service, indexes={BY_SERVICE: by_service}),
        slices=manager.informer(
            ENDPOINT_SLICES,
            EndpointSlice,
            labels=SERVE_SLICES,
            indexes={BY_SERVICE_NAME: by_service_name},
        ),
        # KubeRay puts no labels on Gateways, so all of them are watched, from the first time one is needed.
        gateways=manager.informer(GATEWAYS, Gateway, on_demand=True) if incremental else None,
        routes=manager.informer(HTTP_ROUTES, HTTPRoute, on_demand=True) if incremental else None,
    )


# ── which RayServices a change concerns ──────────────────────────────────────────────────


def _service_of_pod(caches: Caches, pod: Pod) -> Iterator[Key]:
    if by_serving_cluster(pod):
        name = pod.metadata.labels.get(names.LABEL_CLUSTER, "")
        yield from _service_of_cluster(caches, Key(pod.metadata.namespace, name))


def _service_of_serve_service(caches: Caches, one: Service) -> Iterator[Key]:
    """The RayService of a cluster's own serve Service, which the RayCluster owns."""
    owner = one.metadata.controller
    if owner is None or owner.kind != RAY_CLUSTERS.kind:
        return
    if names.LABEL_SERVE in one.metadata.labels:
        yield from _service_of_cluster(caches, Key(one.metadata.namespace, owner.name))


def _service_of_slice(caches: Caches, one: EndpointSlice) -> Iterator[Key]:
    name = one.metadata.labels.get(LABEL_SERVICE_NAME, "")
    service = caches.services.get(Key(one.metadata.namespace, name))
    owner = service.metadata.controller if service else None
    if service is None or owner is None:
        return
    if owner.kind == RAY_CLUSTERS.kind:
        yield from _service_of_cluster(caches, Key(service.metadata.namespace, owner.name))
    else:
        yield from _owning_service(service.metadata)


def _service_of_cluster(caches: Caches, key: Key) -> Iterator[Key]:
    cluster = caches.clusters.get(key)
    if cluster is not None:
        yield from _owning_service(cluster.metadata)


def _owning_service(meta: ObjectMeta) -> Iterator[Key]:
    owner = meta.controller
    if owner is not None and owner.kind == RAY_SERVICES.kind:
        yield Key(meta.namespace, owner.name)
