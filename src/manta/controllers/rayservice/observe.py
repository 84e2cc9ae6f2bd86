"""Reads all that a round of a RayService may know: the caches, and what Serve said last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import Any, NamedTuple, Protocol

import msgspec

from manta.api.core import Pod, Service
from manta.api.discovery import EndpointSlice
from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key, ObjectMeta, View
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_SERVICES
from manta.api.ray.service import (
    AppStatus,
    RayService,
    RayServiceSpec,
    RayServiceStatus,
    RayServiceStatuses,
    ServeDeploymentStatus,
)
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.controllers.rayservice.asker import Heard
from manta.controllers.rayservice.inquire import Question, expects_change, question
from manta.controllers.rayservice.planners.doubt import LOOK_AFTER, doubtful
from manta.controllers.rayservice.snapshot import (
    Answer,
    ClusterSight,
    NotAsked,
    ServiceSnapshot,
    Silent,
    Told,
)
from manta.controllers.rayservice.submissions import SubmissionMemory, recorded
from manta.kube.client import Client
from manta.kube.errors import ApiError, Forbidden, NotFound
from manta.manifests.gateway import gateway_name, route_name
from manta.manifests.serve_services import (
    cluster_serve_service_name,
    head_service_name,
    serve_service_name,
)
from manta.ray.models import ApplicationStatus, ServeStatus, Unreachable
from manta.ray.watch import DashboardWatch
from manta.rules.serve_config import parse_serve_config
from manta.rules.settings import Settings
from manta.rules.text_cache import LARGE_TEXT
from manta.rules.traits import head_service_name as cluster_head_service_name
from manta.rules.validation.service import service_violations
from manta.rules.validation.violation import Violation
from manta.runtime.cache import Named
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.offload import parse_ahead

DRAINING = ("DRAINING", "DRAINED")
"""How Serve calls a proxy that is on its way out, and rightly takes no more requests."""

BY_SERVICE = "RayService that controls it"
BY_SERVING_CLUSTER = "cluster of a RayService"
BY_SERVICE_NAME = "Service that it belongs to"

SERVE_SLICES = names.LABEL_SERVE
"""Slices bear the labels of their Service: this one is on every Service that we make for Serve."""


class CachedRayService(View, frozen=True, kw_only=True):
    """A RayService whose spec stays as it was written, so that its clusters get all of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: RayServiceStatuses = RayServiceStatuses()


class _OnlyClusterConfig(View, frozen=True, kw_only=True):
    ray_cluster_config: dict[str, Any] = msgspec.field(default_factory=dict)


# ── indexes ──────────────────────────────────────────────────────────────────────────────


def by_service(one: Named) -> tuple[str, ...]:
    owner = one.metadata.controller
    return (owner.uid,) if owner is not None and owner.kind == RAY_SERVICES.kind else ()


def by_serving_cluster(pod: Pod) -> tuple[str, ...]:
    labels = pod.metadata.labels
    if names.LABEL_SERVE not in labels:
        return ()
    return (str(Key(pod.metadata.namespace, labels.get(names.LABEL_CLUSTER, ""))),)


def by_service_name(one: EndpointSlice) -> tuple[str, ...]:
    name = one.metadata.labels.get(names.LABEL_SERVICE_NAME)
    return (str(Key(one.metadata.namespace, name)),) if name else ()


@dataclass(frozen=True, slots=True)
class Caches:
    ray_services: Informer[CachedRayService]
    clusters: Informer[RayCluster]
    pods: Informer[Pod]
    services: Informer[Service]
    slices: Informer[EndpointSlice]
    gateways: Informer[Gateway] | None = None
    """Only with incremental upgrades, and begun by the first RayService that asks for one."""
    routes: Informer[HTTPRoute] | None = None


class WatchKey(NamedTuple):
    """One cluster of one RayService, as a subject of questions."""

    service: Key
    cluster: str


class Probes(Protocol):
    """The Serve proxies of heads that serve."""

    def __call__(self, subject: WatchKey, asked: Question) -> bool | None:
        """Whether this head's proxy took the last probe; None before the first. Probe it from now."""
        ...

    def forget(self, subject: WatchKey) -> None: ...


class _Ways(NamedTuple):
    gateway: Gateway | None = None
    route: HTTPRoute | None = None
    trouble: str = ""


class Observer:
    def __init__(  # noqa: PLR0913  what it reads from, in one place
        self,
        caches: Caches,
        client: Client,
        watch: DashboardWatch[WatchKey, Heard],
        ask: Callable[[Question], Awaitable[Heard]],
        clock: Clock,
        random: Random,
        settings: Settings,
        *,
        submissions: SubmissionMemory,
        probes: Probes,
    ) -> None:
        self._caches = caches
        self._client = client
        self._watch = watch
        self._ask = ask
        self._clock = clock
        self._random = random
        self._settings = settings
        self._submissions = submissions
        self._probes = probes
        self._asked: dict[Key, frozenset[str]] = {}
        self._expecting: dict[WatchKey, bool] = {}
        self._waiting_since: dict[Key, datetime] = {}

    async def observe(self, key: Key) -> ServiceSnapshot | None:
        """None when the object is gone, or another operator looks after it (C94)."""
        cached = self._caches.ray_services.get(key)
        spec = msgspec.json.decode(cached.spec, type=RayServiceSpec) if cached else None
        if cached is None or spec is None or _is_managed_elsewhere(spec):
            self._listen_only_to(key, frozenset())
            self._waiting_since.pop(key, None)
            self._submissions.keep_only(key, ())
            return None
        await parse_ahead(parse_serve_config, spec.serve_config_v2, LARGE_TEXT)
        service = RayService(metadata=cached.metadata, spec=spec, status=cached.status)
        seen = self._world(service, cached.spec)
        if await self._has_looked(key, doubtful(seen)):
            seen = self._world(service, cached.spec)
        seen = self._with_endpoints(seen)
        ways = await self._ways_in(seen)
        seen = replace(seen, gateway=ways.gateway, route=ways.route, gateway_trouble=ways.trouble)
        return self._with_answers(key, seen)

    async def _has_looked(self, key: Key, pods: tuple[Pod, ...]) -> bool:
        """Read what is waited for from the server, once it was waited for too long."""
        if not pods:
            self._waiting_since.pop(key, None)
            return False
        now = self._clock.now()
        if now - self._waiting_since.setdefault(key, now) < LOOK_AFTER:
            return False
        self._waiting_since[key] = now
        for pod in pods:
            await self._caches.pods.read(pod.metadata.key, pod.metadata.uid)
        return True

    def _world(self, service: RayService, raw: msgspec.Raw) -> ServiceSnapshot:
        namespace, status = service.metadata.namespace, service.status
        config = parse_serve_config(service.spec.serve_config_v2)
        clusters = self._caches.clusters.by(BY_SERVICE, service.metadata.uid)
        self._submissions.keep_only(service.metadata.key, [one.metadata.name for one in clusters])
        by_name = {cluster.metadata.name: cluster for cluster in clusters}
        active = by_name.get(status.active_service_status.ray_cluster_name)
        pending = by_name.get(status.pending_service_status.ray_cluster_name)
        return ServiceSnapshot(
            service=service,
            settings=self._settings,
            now=self._clock.now(),
            seed=self._random.getrandbits(48),
            violations=service_violations(service, self._settings),
            cluster_spec=msgspec.json.decode(raw, type=_OnlyClusterConfig).ray_cluster_config,
            serve_config={} if isinstance(config, Violation) else config,
            clusters=clusters,
            active=self._sight(service, active, status.active_service_status) if active else None,
            pending=self._sight(service, pending, status.pending_service_status)
            if pending
            else None,
            head_service=self._owned_by(
                service.metadata.uid, Key(namespace, head_service_name(service))
            ),
            serve_service=self._owned_by(
                service.metadata.uid, Key(namespace, serve_service_name(service))
            ),
            own_services=self._caches.services.by(BY_SERVICE, service.metadata.uid),
            drops_submissions=self._submissions.is_dropped(service.metadata.key, status),
        )

    def _sight(
        self, service: RayService, cluster: RayCluster, side: RayServiceStatus
    ) -> ClusterSight:
        key = cluster.metadata.key
        pods = [
            pod
            for pod in self._caches.pods.by(BY_SERVING_CLUSTER, str(key))
            if pod.metadata.controller and pod.metadata.controller.uid == cluster.metadata.uid
        ]
        heads = [
            pod for pod in pods if pod.metadata.labels[names.LABEL_NODE_TYPE] == names.NODE_HEAD
        ]
        alive = [pod for pod in heads if pod.metadata.deletion_timestamp is None]
        services = self._caches.services
        return ClusterSight(
            cluster,
            head_pod=next(iter(alive or heads), None),
            pods=tuple(pods),
            head_service=services.get(Key(key.namespace, cluster_head_service_name(cluster))),
            serve_service=self._owned_by(
                cluster.metadata.uid, Key(key.namespace, cluster_serve_service_name(key.name))
            ),
            submission=self._submissions.latest(
                service.metadata.key, cluster.metadata.name, recorded(side, cluster)
            ),
        )

    def _owned_by(self, uid: str, key: Key) -> Service | None:
        """A Service of that name that is ours; another's is neither used nor changed (C75)."""
        found = self._caches.services.get(key)
        owner = found.metadata.controller if found else None
        return found if owner is not None and owner.uid == uid else None

    def _with_endpoints(self, seen: ServiceSnapshot) -> ServiceSnapshot:
        sights = (one for one in (seen.active, seen.pending) if one is not None)
        ours = (seen.serve_service, *(one.serve_service for one in sights))
        found = {one.metadata.name: self._ready_pods(one) for one in ours if one is not None}
        return replace(seen, endpoints=found)

    def _ready_pods(self, service: Service) -> frozenset[str]:
        """By UID: a dual-stack Pod is in two slices, and is one Pod."""
        return frozenset(
            endpoint.target_ref.uid
            for one in self._caches.slices.by(BY_SERVICE_NAME, str(service.metadata.key))
            for endpoint in one.endpoints
            if endpoint.ready and endpoint.target_ref is not None
        )

    # ── the Gateway API, which may not be installed: watched once a RayService needs it ──

    async def _ways_in(self, seen: ServiceSnapshot) -> _Ways:
        if not seen.is_incremental and not seen.was_split:
            return _Ways()
        service, namespace = seen.service, seen.service.metadata.namespace
        gateway, route = gateway_name(service), route_name(service)
        gateways, routes = self._caches.gateways, self._caches.routes
        if gateways is not None and routes is not None:
            gateways.want()
            routes.want()
            if _keeps_up(gateways) and _keeps_up(routes):
                return _Ways(
                    gateways.get(Key(namespace, gateway)), routes.get(Key(namespace, route))
                )
        try:
            return _Ways(
                await self._find(GATEWAYS, Key(namespace, gateway), Gateway),
                await self._find(HTTP_ROUTES, Key(namespace, route), HTTPRoute),
            )
        except (Forbidden, NotFound) as error:
            return _Ways(trouble=_gateway_trouble(error))

    async def _find(self, resource: Any, key: Key, into: Any) -> Any:
        try:
            return await self._client.get(resource, key, into=into)
        except NotFound as error:
            if error.of_type:
                raise
            return None

    # ── Serve ────────────────────────────────────────────────────────────────────────────

    def _with_answers(self, key: Key, seen: ServiceSnapshot) -> ServiceSnapshot:
        active = self._heard(key, seen, seen.active)
        pending = self._heard(key, seen, seen.pending)
        sights = (one for one in (active, pending) if one is not None)
        asked = frozenset(one.name for one in sights if question(seen, one) is not None)
        self._listen_only_to(key, asked)
        return replace(seen, active=active, pending=pending)

    def _heard(
        self, key: Key, seen: ServiceSnapshot, sight: ClusterSight | None
    ) -> ClusterSight | None:
        asked = question(seen, sight) if sight is not None else None
        if sight is None or asked is None:
            return sight

        async def ask() -> Heard:
            return await self._ask(asked)

        subject = WatchKey(key, sight.name)
        before = self._expecting.get(subject, True)
        heard = self._watch.answer(subject, asked.whereabouts, ask, expecting=before)
        if heard is not None:
            answer = translate(heard.serve)
            sight = replace(sight, answer=answer, proxy_answers=heard.proxy_answers)
        if asked.is_probed and (probed := self._probes(subject, asked)) is not None:
            sight = replace(sight, proxy_answers=probed)
        now = expects_change(seen, sight)
        if now != before:
            self._watch.answer(subject, asked.whereabouts, ask, expecting=now)
        self._expecting[subject] = now
        return sight

    def _listen_only_to(self, key: Key, clusters: frozenset[str]) -> None:
        for name in self._asked.pop(key, frozenset()) - clusters:
            self._watch.forget(WatchKey(key, name))
            self._probes.forget(WatchKey(key, name))
            self._expecting.pop(WatchKey(key, name), None)
        if clusters:
            self._asked[key] = clusters


def translate(answer: ServeStatus | Unreachable) -> Answer:
    """From what a dashboard says to what a planner reads."""
    match answer:
        case Unreachable(why=why):
            return Silent(why)
        case ServeStatus(applications=applications, proxies=proxies):
            told = {
                name or names.DEFAULT_SERVE_APPLICATION: _application(one)
                for name, one in applications.items()
            }
            kept = (one.node_ip for one in proxies.values() if one.status not in DRAINING)
            return Told(told, frozenset(kept))
        case _:
            return NotAsked()


def _application(one: ApplicationStatus) -> AppStatus:
    return AppStatus(
        status=one.status,
        message=one.message,
        serve_deployment_statuses={
            name: ServeDeploymentStatus(status=deployment.status, message=deployment.message)
            for name, deployment in one.deployments.items()
        },
    )


def _keeps_up(informer: Informer[Any]) -> bool:
    """Whether its cache can be believed: not before it is filled, nor when its type was uninstalled."""
    return informer.is_filled and informer.trouble is None


def _is_managed_elsewhere(spec: RayServiceSpec) -> bool:
    return bool(spec.managed_by) and spec.managed_by != names.MANAGED_BY_OPERATOR


def _gateway_trouble(error: ApiError) -> str:
    if isinstance(error, NotFound):
        return (
            "the Gateway API (gateway.networking.k8s.io/v1) is not installed in this cluster:"
            " install it, or use the upgrade type NewCluster"
        )
    return f"cannot read Gateway and HTTPRoute: {error}"
