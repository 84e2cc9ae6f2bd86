"""Ties the rooms of the RayCluster controller: what is watched, and what a round does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from manta.api.batch import Job
from manta.api.certificates import Certificate
from manta.api.core import PersistentVolumeClaim, Pod, Service, ServiceAccount
from manta.api.meta import Key, Object
from manta.api.networking import Ingress, NetworkPolicy, Route
from manta.api.policy import PodDisruptionBudget
from manta.api.ray.cluster import RayCluster, RayClusterStatus
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.rbac import Role, RoleBinding
from manta.api.resources import (
    CERTIFICATES,
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
)
from manta.api.scheduling import PodGroup
from manta.controllers.raycluster import metrics
from manta.controllers.raycluster.conditions import BLOCKED
from manta.controllers.raycluster.doubts import QUIET, Doubts
from manta.controllers.raycluster.events import CONTROLLER, told
from manta.controllers.raycluster.lost_nodes import LostNodes
from manta.controllers.raycluster.observe import BY_CLUSTER, Caches, Observer, by_cluster
from manta.controllers.raycluster.pacing import has_new_trouble, write_in
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import is_whole, next_status
from manta.controllers.raycluster.warnings import warnings
from manta.manifests.gang import pod_groups
from manta.reconcile.events import Told
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import Outcome
from manta.reconcile.perform import KubePerformer
from manta.reconcile.plan import Plan
from manta.reconcile.report import StatusWriter
from manta.rules.selection import CLEANUP_JOBS, OF_A_CLUSTER, RAY_PODS
from manta.rules.settings import Settings
from manta.rules.traits import protects_head
from manta.runtime.controller import Controller, Watch, own_key, owner_keys
from manta.runtime.freshness import Owner
from manta.runtime.informer import Informer
from manta.runtime.manager import Manager
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry
from manta.runtime.recorder import ObjectReference, Recorder

NAME: Final = "raycluster"
WORKERS: Final = 8
BUDGETS_LISTED: Final = timedelta(seconds=5)
"""When to look again at a cluster whose budget could not be known yet."""


def build(manager: Manager, settings: Settings) -> Controller:
    caches = _caches(manager, settings)
    if settings.enable_metrics:
        metrics.register(manager.registry, caches.clusters)
    shop = _Shop(manager, settings, caches)
    return Controller(
        NAME, shop.reconcile, _watches(caches), workers=WORKERS, subject=caches.clusters
    )


def _caches(manager: Manager, settings: Settings) -> Caches:
    """Accounts and claims may be the user's own, without our labels; the rest is selected."""
    indexed: dict[str, Any] = {BY_CLUSTER: by_cluster}
    embedded = settings.gates.gcs_fault_tolerance_embedded_storage
    mutual_tls = settings.gates.ray_cluster_mtls and settings.cert_manager
    return Caches(
        clusters=manager.informer(RAY_CLUSTERS, RayCluster),
        pods=manager.informer(PODS, Pod, labels=RAY_PODS, indexes=indexed),
        services=manager.informer(SERVICES, Service),
        cleanup_jobs=manager.informer(JOBS, Job, labels=CLEANUP_JOBS, indexes=indexed),
        service_accounts=manager.informer(SERVICE_ACCOUNTS, ServiceAccount),
        roles=manager.informer(ROLES, Role, labels=OF_A_CLUSTER),
        role_bindings=manager.informer(ROLE_BINDINGS, RoleBinding, labels=OF_A_CLUSTER),
        ingresses=manager.informer(INGRESSES, Ingress, labels=OF_A_CLUSTER),
        claims=manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        if embedded
        else None,
        network_policies=manager.informer(
            NETWORK_POLICIES, NetworkPolicy, labels=OF_A_CLUSTER, indexes=indexed
        )
        if settings.gates.ray_cluster_network_policy
        else None,
        routes=manager.informer(ROUTES, Route, labels=OF_A_CLUSTER) if settings.openshift else None,
        issuers=manager.informer(ISSUERS, Object, labels=OF_A_CLUSTER, indexes=indexed)
        if mutual_tls
        else None,
        certificates=manager.informer(
            CERTIFICATES, Certificate, labels=OF_A_CLUSTER, indexes=indexed
        )
        if mutual_tls
        else None,
        pod_groups=_pod_groups(manager, settings),
        budgets=manager.informer(
            POD_DISRUPTION_BUDGETS, PodDisruptionBudget, labels=OF_A_CLUSTER, on_demand=True
        ),
    )


def _pod_groups(manager: Manager, settings: Settings) -> Informer[PodGroup] | None:
    groups = pod_groups(settings)
    return manager.informer(groups.resource, PodGroup) if groups is not None else None


def _watches(caches: Caches) -> list[Watch[Any]]:
    children = owner_keys(RAY_CLUSTERS.kind, RAY_CLUSTERS.group)
    owned = (
        caches.services,
        caches.cleanup_jobs,
        caches.service_accounts,
        caches.roles,
        caches.role_bindings,
        caches.ingresses,
        caches.claims,
        caches.network_policies,
        caches.routes,
        caches.issuers,
        caches.certificates,
        caches.pod_groups,
        caches.budgets,
    )
    return [
        Watch(caches.clusters, own_key),
        Watch(caches.pods, keys_of_pod, ahead=True),
        *(Watch(informer, children) for informer in owned if informer is not None),
    ]


def keys_of_pod(old: Pod | None, new: Pod | None) -> tuple[Key, ...]:
    """The RayCluster that a Pod says it belongs to, before and after the change, if it matters."""
    if old is not None and new is not None and is_only_bound(old, new):
        return ()
    found: dict[Key, None] = {}
    for one in (old, new):
        if one is not None:
            for value in by_cluster(one):
                found[Key(one.metadata.namespace, value.partition("/")[2])] = None
    return tuple(found)


def is_only_bound(old: Pod, new: Pod) -> bool:
    """A node was found for a Pod at once: nothing depends on it before its kubelet says more. Where
    nobody had found one before, its conditions said so, and the cluster's do too."""
    before, after = old.metadata, new.metadata
    return (
        not old.spec.node_name
        and bool(new.spec.node_name)
        and not old.status.conditions
        and old.status.phase == new.status.phase
        and not (new.status.container_statuses or new.status.init_container_statuses)
        and before.deletion_timestamp == after.deletion_timestamp
        and before.labels == after.labels
        and before.annotations == after.annotations
    )


class _Shop:
    """What all rounds share."""

    def __init__(self, manager: Manager, settings: Settings, caches: Caches) -> None:
        self.observer = Observer(caches, settings, manager.clock, manager.random)
        self.doubts = Doubts(caches.pods)
        self.lost_nodes = LostNodes(manager.client)
        self.budgets = caches.budgets
        self.performer = KubePerformer(manager.client, manager.freshness)
        self.writer = StatusWriter(manager.client, manager.freshness)
        self.recorder: Recorder = manager.recorder
        self.resync = settings.cluster_resync
        self.noticed: dict[Key, datetime] = {}
        """Since when a cluster's progress waits to be written. Only a matter of pace: a restart
        may forget it."""
        self.random = manager.random

    async def reconcile(self, key: Key) -> Done | Retry:
        round_ = _Round(self)
        result = await reconcile(round_, key)
        return round_.sooner(result)


class _Round:
    """One round: the rooms, and whether its status is to be written later."""

    def __init__(self, shop: _Shop) -> None:
        self._shop = shop
        self._again_in: timedelta | None = None
        """The safety resync."""
        self._put_off: timedelta | None = None
        """Until what it could not do or tell yet."""

    async def observe(self, key: Key) -> ClusterSnapshot | None:
        shop = self._shop
        seen = shop.observer.observe(key)
        if seen is None:
            shop.noticed.pop(key, None)
        if seen is None or seen.is_resting:
            return seen
        if await shop.doubts.resolve(seen):
            seen = shop.observer.observe(key)
        if seen is not None and (lost := await shop.lost_nodes.of(seen)):
            seen = replace(seen, lost_nodes=lost)
        # The safety resync, spread so that many clusters never come at once (C41).
        at_rest = seen is None or (is_whole(seen) and not seen.condition(BLOCKED))
        at_most = shop.resync if at_rest else QUIET
        self._again_in = min(shop.resync, at_most) * (1 + shop.random.random() / 10)
        if seen is not None and protects_head(seen.cluster.metadata.annotations):
            self._want_budgets(seen)
        return seen

    def _want_budgets(self, seen: ClusterSnapshot) -> None:
        """Budgets are watched from the first cluster on that has one."""
        if self._shop.budgets is not None:
            self._shop.budgets.want()
        if not seen.knows_budgets:
            self._put_off = BUDGETS_LISTED

    def plan(self, seen: ClusterSnapshot) -> Plan:
        return plan(seen)

    async def apply(self, seen: ClusterSnapshot, plan: Plan) -> Outcome:
        return await self._shop.performer.apply(_owner(seen), plan)

    async def report(self, seen: ClusterSnapshot, plan: Plan, outcome: Outcome) -> bool:
        with phase(Phase.EVENTS):
            self._tell(seen, told(outcome))
        if seen.is_being_deleted:
            return False
        new = next_status(seen, outcome)
        if has_new_trouble(seen, new):
            with phase(Phase.EVENTS):
                self._tell(seen, warnings(seen))
        key, noticed = seen.cluster.metadata.key, self._shop.noticed
        when = write_in(seen, new, noticed.get(key))
        if when is not None and when > timedelta(0):
            noticed.setdefault(key, seen.now)
            self._put_off = when
            return False
        noticed.pop(key, None)
        return when is not None and await self._write(seen, new)

    def idle_delay(self, seen: ClusterSnapshot) -> timedelta | None:
        return self._again_in

    def sooner(self, result: Done | Retry) -> Done | Retry:
        """A wait never delays what this round has put off, nor the safety resync. A failure does not
        delay the first, but replaces the second: its backoff is a resync of its own."""
        if isinstance(result, Retry):
            return replace(result, within=_earlier(result.within, self._put_off))
        return Done(_earlier(result.retry_in, _earlier(self._put_off, self._again_in)))

    async def _write(self, seen: ClusterSnapshot, new: RayClusterStatus) -> bool:
        meta, old = seen.cluster.metadata, seen.cluster.status
        return await self._shop.writer.write(_owner(seen), RAY_CLUSTERS, meta, old, new)

    def _tell(self, seen: ClusterSnapshot, events: Iterable[Told]) -> None:
        regarding = ObjectReference.to(RAY_CLUSTERS, seen.cluster.metadata)
        for event in events:
            self._shop.recorder.event(
                regarding, event.type, event.reason, event.action, event.note, controller=CONTROLLER
            )


def _earlier(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _owner(seen: ClusterSnapshot) -> Owner:
    return Owner(NAME, seen.cluster.metadata.key)
