"""What the operator would do to a RayCluster now, without doing it: for `manta plan`.

The same snapshot, planners and status as in a real round, on objects that are read once from the
server. Nothing is written. For an edit, the new spec is laid over the live object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from manta.api.batch import Job
from manta.api.certificates import Certificate
from manta.api.core import PersistentVolumeClaim, Pod, Service, ServiceAccount
from manta.api.meta import Key, Object
from manta.api.networking import Ingress, NetworkPolicy, Route
from manta.api.policy import PodDisruptionBudget
from manta.api.ray import names
from manta.api.ray.cluster import ClusterUpgradeType, RayCluster, RayClusterSpec
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
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.observe import BY_CLUSTER, Caches, Observer, by_cluster
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import differs, next_status
from manta.kube.client import Client
from manta.manifests.gang import pod_groups
from manta.manifests.head_pod import build_head_pod
from manta.manifests.worker_pod import worker_pod_mold
from manta.reconcile.actions import Action, Delete
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.preview import Preview
from manta.reconcile.rehearsal import Reader, first_plan, live_and_wanted
from manta.rules.differences import Difference, differences
from manta.rules.scaling import desired_replicas, max_replicas, min_replicas
from manta.rules.selection import CLEANUP_JOBS, OF_A_CLUSTER, RAY_PODS
from manta.rules.settings import Settings
from manta.rules.spec_hash import essence
from manta.rules.traits import ray_container_of
from manta.runtime.clock import Clock


class Effect(StrEnum):
    NEW = "it is new, and everything is made"
    SUSPENDED = "it is suspended: no Pods are made until spec.suspend is false"
    INVALID = "it is invalid: nothing is done until the spec is corrected"
    NOTHING = "nothing changes"
    IN_PLACE = "changed in place; no running Pod is replaced"
    SOME_REPLACED = "some Pods are replaced"
    SOME_GO = "some Pods go"
    ALL_RECREATED = "all Pods are recreated"
    ALL_GO = "all Pods go"


ONLY_NEW_PODS = (
    "Pods that run keep their template; only new ones get the changed one "
    "(upgradeStrategy.type: Recreate would replace them)"
)

_REPLACING = frozenset(
    {Cause.UNHEALTHY_HEAD, Cause.UNHEALTHY_WORKER, Cause.INCOMPLETE_REPLICA, Cause.SPEC_CHANGED}
)


async def preview(
    client: Client,
    settings: Settings,
    clock: Clock,
    key: Key,
    manifest: Mapping[str, Any] | None = None,
) -> Preview | None:
    """Of the live object, or of a manifest laid over it. None: neither is there, or not ours."""
    live, wanted = await live_and_wanted(client, RAY_CLUSTERS, key, manifest)
    if wanted is None:
        return None
    cluster = msgspec.convert(wanted, RayCluster)
    caches = await _read(client, settings, cluster)
    seen = Observer(caches, settings, clock, Random(0)).observe(key)  # noqa: S311  no secret
    before = msgspec.convert(live, RayCluster) if live is not None else None
    return None if seen is None else foresee(seen, before)


def foresee(seen: ClusterSnapshot, live: RayCluster | None) -> Preview:
    _, chosen = first_plan(seen, plan, _after_status)
    effect = Effect.INVALID if seen.violations else _effect(chosen.actions, seen, live)
    rebuilt = _rebuilt(live, seen) if live is not None else frozenset()
    is_spared = effect in (Effect.NOTHING, Effect.IN_PLACE)
    return Preview(
        effect,
        chosen,
        violations=tuple(str(one) for one in seen.violations),
        changes=tuple(_changes(live, seen, rebuilt)) if live is not None else (),
        remarks=(*_clamped(seen), *((ONLY_NEW_PODS,) if rebuilt and is_spared else ())),
    )


def _after_status(seen: ClusterSnapshot) -> ClusterSnapshot | None:
    new = next_status(seen, UNTRIED)
    if not differs(seen.cluster.status, new):
        return None
    return replace(seen, cluster=msgspec.structs.replace(seen.cluster, status=new))


def _clamped(seen: ClusterSnapshot) -> Iterator[str]:
    """Groups whose `replicas` are outside their bounds."""
    for number, group in enumerate(seen.cluster.spec.worker_group_specs):
        wanted, made = group.replicas, desired_replicas(group)
        if wanted is None or wanted == made or group.suspend:
            continue
        bounds = f"minReplicas {min_replicas(group)} and maxReplicas {max_replicas(group)}"
        yield (
            f"spec.workerGroupSpecs[{number}].replicas: {wanted} is not between {bounds}: "
            f"group {group.group_name} gets {made}"
        )


def _effect(actions: tuple[Action, ...], seen: ClusterSnapshot, live: RayCluster | None) -> Effect:
    going = [one for one in actions if isinstance(one, Delete) and one.resource == PODS]
    if seen.cluster.spec.suspend and not going and not seen.pods:
        return Effect.SUSPENDED
    if not actions:
        return Effect.NOTHING
    if not going:
        return Effect.IN_PLACE if live is not None else Effect.NEW
    everyone = {one.key.name for one in going} == {pod.metadata.name for pod in seen.pods}
    if all(one.cause in _REPLACING for one in going):
        return Effect.ALL_RECREATED if everyone else Effect.SOME_REPLACED
    return Effect.ALL_GO if everyone else Effect.SOME_GO


# ── what an edit changes ─────────────────────────────────────────────────────────────────


def _changes(live: RayCluster, seen: ClusterSnapshot, rebuilt: frozenset[str]) -> Iterator[str]:
    """Each field with its old and new value, and what comes of it."""
    counted = {one.field for one in _differences(essence(live.spec), essence(seen.cluster.spec))}
    strategy = seen.cluster.spec.upgrade_strategy
    recreates = strategy is not None and strategy.type == ClusterUpgradeType.RECREATE
    for one in _differences(live.spec, seen.cluster.spec):
        if recreates and one.field in counted:
            yield f"{one} (recreates all Pods)"
        elif one.field in counted and _node_of(one.field, rebuilt):
            yield f"{one} (for new Pods only)"
        else:
            yield f"{one} (in place)"


def _differences(before: RayClusterSpec, after: RayClusterSpec) -> tuple[Difference, ...]:
    return differences(msgspec.to_builtins(before), msgspec.to_builtins(after))


def _rebuilt(live: RayCluster, seen: ClusterSnapshot) -> frozenset[str]:
    """The groups (the head's too) whose Pods would be made otherwise than they were."""
    before, after = _molds(live, seen.settings), _molds(seen.cluster, seen.settings)
    return frozenset(group for group in before.keys() & after if before[group] != after[group])


def _molds(cluster: RayCluster, settings: Settings) -> dict[str, Any]:
    if not ray_container_of(cluster.spec.head_group_spec.template):
        return {}  # invalid: there is nothing to build
    head = build_head_pod(cluster, settings, spec_hash="")
    molds: dict[str, Any] = {names.HEAD_GROUP: head}
    for group in cluster.spec.worker_group_specs:
        if ray_container_of(group.template):
            molds[group.group_name] = worker_pod_mold(cluster, group, settings)
    return molds


def _node_of(field: str, groups: frozenset[str]) -> bool:
    """Whether a field concerns one of these groups; what is said of all concerns each."""
    if field.startswith("spec.headGroupSpec"):
        return names.HEAD_GROUP in groups
    if field.startswith("spec.workerGroupSpecs["):
        return any(field.startswith(f"spec.workerGroupSpecs[{group}]") for group in groups)
    return bool(groups)


# ── reading once ─────────────────────────────────────────────────────────────────────────


async def _read(client: Client, settings: Settings, cluster: RayCluster) -> Caches:
    reader = Reader(client, cluster.metadata.namespace, {BY_CLUSTER: by_cluster})
    listed, if_possible = reader.listed, reader.listed_if_possible
    gates = settings.gates
    mutual_tls = gates.ray_cluster_mtls and settings.cert_manager
    groups = pod_groups(settings)
    return Caches(
        clusters=reader.only(cluster),
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
        routes=await listed(ROUTES, Route, OF_A_CLUSTER) if settings.openshift else None,
        issuers=await listed(ISSUERS, Object, OF_A_CLUSTER) if mutual_tls else None,
        certificates=await listed(CERTIFICATES, Certificate, OF_A_CLUSTER) if mutual_tls else None,
        pod_groups=await if_possible(groups.resource, PodGroup) if groups else None,
        budgets=await if_possible(POD_DISRUPTION_BUDGETS, PodDisruptionBudget, OF_A_CLUSTER),
    )
