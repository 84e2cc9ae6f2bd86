"""What the operator would do to a RayCluster now, without doing it: for `manta plan`.

The same snapshot, planners and status as in a real round, on objects that are read once from the
server. Nothing is written. For an edit, the new spec is laid over the live object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any, Generic, TypeVar, cast

import msgspec

from manta.api.batch import Job
from manta.api.core import PersistentVolumeClaim, Pod, Service, ServiceAccount
from manta.api.meta import Key, Object
from manta.api.networking import Ingress, NetworkPolicy
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.rbac import Role, RoleBinding
from manta.api.resources import (
    INGRESSES,
    JOBS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from manta.controllers.raycluster.observe import Caches, Observer, by_cluster
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import differs, next_status
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.reconcile.actions import Action, Delete
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.preview import Preview
from manta.rules.differences import differences
from manta.rules.selection import CLEANUP_JOBS, OF_A_CLUSTER, RAY_PODS
from manta.rules.settings import Settings
from manta.rules.spec_hash import spec_hash
from manta.runtime.cache import Named
from manta.runtime.clock import Clock

T = TypeVar("T", bound=Named)

_MOST_STATUS_ROUNDS = 3
"""Suspending and resuming are first written to the status; what follows is shown as well."""


class Effect(StrEnum):
    NOTHING = "nothing changes"
    IN_PLACE = "changed in place; no running Pod is replaced"
    SOME_PODS = "some Pods go"
    ALL_PODS = "all Pods go"


ONLY_NEW_PODS = (
    "Pods that run keep their template; only new ones get the changed one "
    "(upgradeStrategy.type: Recreate would replace them)"
)


async def preview(
    client: Client,
    settings: Settings,
    clock: Clock,
    key: Key,
    manifest: Mapping[str, Any] | None = None,
) -> Preview | None:
    """Of the live object, or of a manifest laid over it. None: neither is there, or not ours."""
    live = await _live(client, key)
    cluster = live if manifest is None else await _laid_over(client, key, live, manifest)
    if cluster is None:
        return None
    caches = await _read(client, settings, cluster)
    seen = Observer(caches, settings, clock, Random(0)).observe(key)  # noqa: S311  no secret
    return None if seen is None else foresee(seen, live)


def foresee(seen: ClusterSnapshot, live: RayCluster | None) -> Preview:
    """The first plan that does something, after the status writes that come before it."""
    chosen, now = plan(seen), seen
    for _ in range(_MOST_STATUS_ROUNDS):
        new = next_status(now, UNTRIED)
        if chosen.actions or not differs(now.cluster.status, new):
            break
        now = replace(now, cluster=msgspec.structs.replace(now.cluster, status=new))
        chosen = plan(now)
    changed = live is not None and spec_hash(live.spec) != spec_hash(seen.cluster.spec)
    effect = _effect(chosen.actions, seen)
    spared = effect in (Effect.NOTHING, Effect.IN_PLACE)
    return Preview(
        effect,
        chosen,
        violations=tuple(str(one) for one in seen.violations),
        changes=_changes(live, seen.cluster),
        remarks=(ONLY_NEW_PODS,) if changed and spared else (),
    )


def _changes(live: RayCluster | None, wanted: RayCluster) -> tuple[str, ...]:
    if live is None:
        return ()
    before, after = msgspec.to_builtins(live.spec), msgspec.to_builtins(wanted.spec)
    return tuple(str(one) for one in differences(before, after))


def _effect(actions: tuple[Action, ...], seen: ClusterSnapshot) -> Effect:
    going = {one.key.name for one in actions if isinstance(one, Delete) and one.resource == PODS}
    if not actions:
        return Effect.NOTHING
    if not going:
        return Effect.IN_PLACE
    everyone = {pod.metadata.name for pod in seen.pods}
    return Effect.ALL_PODS if going == everyone else Effect.SOME_PODS


# ── reading once ─────────────────────────────────────────────────────────────────────────


async def _live(client: Client, key: Key) -> RayCluster | None:
    try:
        return await client.get(RAY_CLUSTERS, key, into=RayCluster)
    except NotFound:
        return None


async def _laid_over(
    client: Client, key: Key, live: RayCluster | None, manifest: Mapping[str, Any]
) -> RayCluster:
    """The object as it would be: the server checks it and fills in its defaults, and keeps nothing."""
    wanted = dict(manifest.get("metadata") or {})
    if live is None:
        body = {**manifest, "metadata": {**wanted, "namespace": key.namespace}}
        return await client.create(RAY_CLUSTERS, key.namespace, body, into=RayCluster, dry_run=True)
    raw = await client.get(RAY_CLUSTERS, key)
    meta = dict(raw["metadata"])
    for name in ("labels", "annotations"):
        meta[name] = {**meta.get(name, {}), **(wanted.get(name) or {})}
    body = {**raw, "metadata": meta, "spec": manifest["spec"]}
    return await client.replace(RAY_CLUSTERS, key, body, into=RayCluster, dry_run=True)


class _Listing(Generic[T]):
    """As much of an informer as the observer asks for, of one namespace, read once."""

    def __init__(self, objects: Iterable[T]) -> None:
        self._objects = {one.metadata.key: one for one in objects}

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def by(self, index: str, value: str) -> tuple[T, ...]:
        return tuple(one for one in self._objects.values() if value in by_cluster(one))


async def _read(client: Client, settings: Settings, cluster: RayCluster) -> Caches:
    async def listed(resource: Resource, into: type[Any], labels: str = "") -> Any:
        found = await client.list(resource, cluster.metadata.namespace, into=into, labels=labels)
        return _Listing(found.items)

    gates = settings.gates
    return Caches(
        clusters=cast("Any", _Listing([cluster])),
        pods=await listed(PODS, Pod, RAY_PODS),
        services=await listed(SERVICES, Service),
        cleanup_jobs=await listed(JOBS, Job, CLEANUP_JOBS),
        service_accounts=await listed(SERVICE_ACCOUNTS, ServiceAccount),
        roles=await listed(ROLES, Role, OF_A_CLUSTER),
        role_bindings=await listed(ROLE_BINDINGS, RoleBinding, OF_A_CLUSTER),
        ingresses=await listed(INGRESSES, Ingress, OF_A_CLUSTER),
        claims=await listed(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        if gates.gcs_fault_tolerance_embedded_storage
        else None,
        network_policies=await listed(NETWORK_POLICIES, NetworkPolicy, OF_A_CLUSTER)
        if gates.ray_cluster_network_policy
        else None,
        routes=await listed(ROUTES, Object, OF_A_CLUSTER) if settings.openshift else None,
    )
