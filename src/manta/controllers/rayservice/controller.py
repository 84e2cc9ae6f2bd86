"""The RayService controller: what it watches, and its rooms tied together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from manta.api.core import Pod, Service
from manta.api.discovery import EndpointSlice
from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key, ObjectMeta
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.resources import ENDPOINT_SLICES, GATEWAYS, HTTP_ROUTES, PODS, SERVICES
from manta.controllers.rayservice import metrics
from manta.controllers.rayservice.announce import announcements
from manta.controllers.rayservice.asker import Asker, DashboardError, Heard
from manta.controllers.rayservice.events import CONTROLLER, EVENTS
from manta.controllers.rayservice.inquire import whom_to_ask
from manta.controllers.rayservice.observe import (
    BY_SERVICE,
    BY_SERVICE_NAME,
    BY_SERVING_CLUSTER,
    SERVE_SLICES,
    CachedRayService,
    Caches,
    Observer,
    WatchKey,
    by_service,
    by_service_name,
    by_serving_cluster,
)
from manta.controllers.rayservice.plan import plan
from manta.controllers.rayservice.probing import ProxyProbes
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.status import next_status
from manta.controllers.rayservice.submissions import SubmissionMemory
from manta.ray.dashboard import Dashboard
from manta.ray.watch import DashboardWatch, Pace
from manta.reconcile import events
from manta.reconcile.actions import Call
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import Outcome
from manta.reconcile.perform import KubePerformer
from manta.reconcile.plan import Plan
from manta.reconcile.report import StatusWriter
from manta.rules.selection import RAY_PODS
from manta.rules.settings import Settings
from manta.runtime.cache import Named
from manta.runtime.controller import Controller, Watch, own_key, owner_keys
from manta.runtime.freshness import Owner
from manta.runtime.manager import Manager
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry
from manta.runtime.recorder import ObjectReference, Recorder

WORKERS = 64
"""Rounds may wait for a dashboard when they submit; they are cheap, so there are many."""

PACE = Pace(busy=0.15, calm=25.0)
"""A switch follows the last application's start within a moment; at rest a service costs one small
request to its dashboard in 25 s, and one to its Serve proxy in 2.5 s (`probing`)."""


class RayServiceRooms:
    """The rooms of one round."""

    def __init__(
        self,
        observer: Observer,
        performer: KubePerformer,
        status: StatusWriter,
        recorder: Recorder,
        asker: Asker,
        submissions: SubmissionMemory,
    ) -> None:
        self.observe = observer.observe
        self._performer = performer
        self._status = status
        self._recorder = recorder
        self._asker = asker
        self._submissions = submissions

    def plan(self, seen: ServiceSnapshot) -> Plan:
        return plan(seen)

    async def apply(self, seen: ServiceSnapshot, plan: Plan) -> Outcome:
        async def perform(call: Call) -> Mapping[str, Any]:
            return await self._call(seen, call)

        return await self._performer.apply(_owner(seen), plan, perform)

    async def _call(self, seen: ServiceSnapshot, call: Call) -> Mapping[str, Any]:
        sight = seen.sight_of(call.arguments["cluster"])
        asked = whom_to_ask(seen, sight) if sight is not None else None
        if sight is None or asked is None:
            raise DashboardError("there is no head to submit to")
        await self._asker.submit(asked, call.arguments["config"])
        self._submissions.keep(_owner(seen).key, sight.name, call.arguments["submission"])
        return {}

    async def report(self, seen: ServiceSnapshot, plan: Plan, outcome: Outcome) -> bool:
        meta = seen.service.metadata
        regarding = ObjectReference.to(RAY_SERVICES, meta)
        with phase(Phase.EVENTS):
            events.emit(self._recorder, CONTROLLER, regarding, EVENTS, outcome)
        new = next_status(seen, outcome)
        if meta.deletion_timestamp is not None or new == seen.status:
            return False
        with phase(Phase.EVENTS):
            events.tell(self._recorder, CONTROLLER, regarding, announcements(seen, new))
        written = await self._status.write(_owner(seen), RAY_SERVICES, meta, seen.status, new)
        if written:
            self._submissions.wrote(meta.key, new)
        return written

    def idle_delay(self, _: ServiceSnapshot) -> timedelta | None:
        return None


def _owner(seen: ServiceSnapshot) -> Owner:
    return Owner(CONTROLLER, seen.service.metadata.key)


def build(manager: Manager, settings: Settings, dashboard: Dashboard) -> Controller:
    """Wire the controller into a manager, which then runs it."""
    caches = _caches(manager, settings)
    asker = Asker(dashboard, manager.client, through_server=settings.use_kubernetes_proxy)
    submissions = SubmissionMemory()

    def news_of(subject: WatchKey) -> None:
        controller.enqueue(subject.service)

    watch: DashboardWatch[WatchKey, Heard] = DashboardWatch(news_of, PACE)
    probes = ProxyProbes(news_of, asker.proxy_answers, through_server=settings.use_kubernetes_proxy)
    observer = Observer(
        caches,
        manager.client,
        watch,
        asker.ask,
        manager.clock,
        manager.random,
        settings,
        submissions=submissions,
        probes=probes,
    )
    performer = KubePerformer(manager.client, manager.freshness)
    writer = StatusWriter(manager.client, manager.freshness)

    async def run_round(key: Key) -> Done | Retry:
        rooms = RayServiceRooms(observer, performer, writer, manager.recorder, asker, submissions)
        return await reconcile(rooms, key)

    owned = owner_keys(RAY_SERVICES.kind, RAY_SERVICES.group)
    watches: tuple[Watch[Any], ...] = (
        Watch(caches.ray_services, own_key),
        Watch(caches.clusters, owned),
        Watch(caches.services, owned),
        Watch(caches.pods, _each(lambda pod: _service_of_pod(caches, pod))),
        Watch(caches.services, _each(lambda one: _service_of_serve_service(caches, one))),
        Watch(caches.slices, _each(lambda one: _service_of_slice(caches, one))),
        *(Watch(one, owned) for one in (caches.gateways, caches.routes) if one is not None),
    )
    controller = Controller(
        CONTROLLER, run_round, watches, workers=WORKERS, subject=caches.ray_services
    )
    manager.add_service("RayService questions", watch.run)
    manager.add_service("probes of Serve proxies", probes.run)
    for end in (watch.close, probes.close, submissions.clear):
        manager.at_end_of_term(end)
    if settings.enable_metrics:
        metrics.register(manager.registry, caches.ray_services)
    return controller


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
        # KubeRay's Gateways bear no labels: all are watched, and only once one is needed.
        gateways=manager.informer(GATEWAYS, Gateway, on_demand=True) if incremental else None,
        routes=manager.informer(HTTP_ROUTES, HTTPRoute, on_demand=True) if incremental else None,
    )


# ── whom a change concerns ───────────────────────────────────────────────────────────────


def _each(whom: Callable[[Any], Iterator[Key]]) -> Callable[[Any, Any], tuple[Key, ...]]:
    def keys(old: Named | None, new: Named | None) -> tuple[Key, ...]:
        return tuple(
            dict.fromkeys(key for one in (old, new) if one is not None for key in whom(one))
        )

    return keys


def _service_of_pod(caches: Caches, pod: Pod) -> Iterator[Key]:
    if by_serving_cluster(pod):
        name = pod.metadata.labels.get(names.LABEL_CLUSTER, "")
        yield from _service_of_cluster(caches, Key(pod.metadata.namespace, name))


def _service_of_serve_service(caches: Caches, one: Service) -> Iterator[Key]:
    """The RayService behind a cluster's own serve Service, which the RayCluster owns."""
    owner = one.metadata.controller
    if owner is None or owner.kind != RAY_CLUSTERS.kind:
        return
    if names.LABEL_SERVE in one.metadata.labels:
        yield from _service_of_cluster(caches, Key(one.metadata.namespace, owner.name))


def _service_of_slice(caches: Caches, one: EndpointSlice) -> Iterator[Key]:
    name = one.metadata.labels.get(names.LABEL_SERVICE_NAME, "")
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
