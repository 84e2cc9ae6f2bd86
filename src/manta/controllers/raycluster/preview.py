"""What the operator would do to a RayCluster now, for `manta plan`. Nothing is written.

Snapshot, planners and status are those of a reconcile, on objects that are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterSpec
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS
from manta.controllers.raycluster.caches import Caches, selections
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import recreates
from manta.controllers.raycluster.forecast import MAX_STEPS, Forecast, forecast
from manta.controllers.raycluster.observe import Observer
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.rollout.outdated import build
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import differs, next_status
from manta.kube.client import Client
from manta.manifests.head_pod import build_head_pod
from manta.manifests.worker_pod import group_pod_builder
from manta.reconcile.actions import Action, Delete
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.preview import (
    Preview,
    Reader,
    first_plan,
    live_and_wanted,
    with_finalizer,
)
from manta.rules.differences import Difference, differences
from manta.rules.revisions import AT_ONCE, content, without_queue_additions
from manta.rules.scaling import desired_replicas, max_replicas, min_replicas
from manta.rules.selection import BY_CLUSTER, by_cluster
from manta.rules.settings import Settings
from manta.rules.spec_hash import ADDED_BY_QUEUES, hashed_part
from manta.rules.traits import ray_container_of
from manta.runtime.clock import Clock


class Effect(StrEnum):
    NEW = "it is new, and everything is created"
    SUSPENDED = "it is suspended: no Pods are created until spec.suspend is false"
    INVALID = "it is invalid: nothing is done until the spec is corrected"
    NOTHING = "nothing changes"
    IN_PLACE = "changed in place; no running Pod is replaced"
    ROLLED = "Pods are replaced one after the other"
    SOME_REPLACED = "some Pods are replaced"
    SOME_DELETED = "some Pods are deleted"
    ALL_RECREATED = "all Pods are recreated"
    ALL_DELETED = "all Pods are deleted"


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
    """Preview the live object, or the object with this manifest applied. None if there is no such object, or another operator manages it."""
    live, wanted = await live_and_wanted(client, RAY_CLUSTERS, key, manifest)
    if wanted is None:
        return None
    # The first reconcile may only add a finalizer: what follows is of interest.
    cluster = msgspec.convert(with_finalizer(wanted, names.FINALIZER_REDIS_CLEANUP), RayCluster)
    caches = await _read(client, settings, cluster)
    snapshot = Observer(caches, settings, clock, Random(0)).observe(key)  # noqa: S311  no secret
    before = msgspec.convert(live, RayCluster) if live is not None else None
    return None if snapshot is None else preview_of(snapshot, before)


def preview_of(snapshot: ClusterSnapshot, live: RayCluster | None) -> Preview:
    _, chosen = first_plan(snapshot, lambda one: plan(one).plan, _after_status)
    effect = Effect.INVALID if snapshot.violations else _effect(chosen.actions, snapshot, live)
    rebuilt = _rebuilt(live, snapshot) if live is not None else frozenset()
    rolls = snapshot.rollout is not None
    expected = forecast(snapshot)
    if any(step.verb == "delete" for step in expected.steps):
        effect = Effect.ROLLED
    keeps_pods = effect in (Effect.NOTHING, Effect.IN_PLACE) and not rolls
    return Preview(
        effect,
        chosen,
        violations=tuple(str(one) for one in snapshot.violations),
        changes=tuple(_changes(live, snapshot, rebuilt)) if live is not None else (),
        remarks=(*_clamped(snapshot), *((ONLY_NEW_PODS,) if rebuilt and keeps_pods else ())),
        order=tuple(_order(expected)),
    )


def _order(expected: Forecast) -> Iterator[str]:
    """The steps of a rolling update, in words."""
    yield from map(str, expected.steps)
    if expected.more and len(expected.steps) >= MAX_STEPS:
        yield f"and so on, for {expected.more} more Pods"
    if expected.ends:
        yield f"wait: {expected.ends}"


def _after_status(snapshot: ClusterSnapshot) -> ClusterSnapshot | None:
    new = next_status(snapshot, UNTRIED)
    if not differs(snapshot.cluster.status, new):
        return None
    return replace(snapshot, cluster=msgspec.structs.replace(snapshot.cluster, status=new))


def _clamped(snapshot: ClusterSnapshot) -> Iterator[str]:
    """Groups whose `replicas` are outside their bounds."""
    for number, group in enumerate(snapshot.cluster.spec.worker_group_specs):
        wanted, made = group.replicas, desired_replicas(group)
        if wanted is None or wanted == made or group.suspend:
            continue
        bounds = f"minReplicas {min_replicas(group)} and maxReplicas {max_replicas(group)}"
        yield (
            f"spec.workerGroupSpecs[{number}].replicas: {wanted} is not between {bounds}: "
            f"group {group.group_name} gets {made}"
        )


def _effect(
    actions: tuple[Action, ...], snapshot: ClusterSnapshot, live: RayCluster | None
) -> Effect:
    going = [one for one in actions if isinstance(one, Delete) and one.resource == PODS]
    if snapshot.cluster.spec.suspend and not going and not snapshot.pods:
        return Effect.SUSPENDED
    if not actions:
        return Effect.NOTHING
    if not going:
        return Effect.IN_PLACE if live is not None else Effect.NEW
    all_pods = {one.key.name for one in going} == {pod.metadata.name for pod in snapshot.pods}
    if all(one.cause in _REPLACING for one in going):
        return Effect.ALL_RECREATED if all_pods else Effect.SOME_REPLACED
    return Effect.ALL_DELETED if all_pods else Effect.SOME_DELETED


# ── what an edit changes ─────────────────────────────────────────────────────────────────


def _changes(live: RayCluster, snapshot: ClusterSnapshot, rebuilt: frozenset[str]) -> Iterator[str]:
    """Each field with its old and new value, and its effect."""
    counted = {
        one.field
        for one in _differences(hashed_part(live.spec), hashed_part(snapshot.cluster.spec))
    }
    rolled = _rolled(live, snapshot) if snapshot.rollout is not None else None
    for one in _differences(live.spec, snapshot.cluster.spec):
        if rolled is not None:
            yield f"{one} ({_need(one.field, rolled, rebuilt)})"
        elif recreates(snapshot) and one.field in counted:
            yield f"{one} (recreates all Pods)"
        elif one.field in counted and _concerns(one.field, rebuilt):
            yield f"{one} (for new Pods only)"
        else:
            yield f"{one} (in place)"


@dataclass(frozen=True, slots=True)
class _Rolled:
    """What a rolling update would replace because of an edit."""

    fields: frozenset[str]
    groups: frozenset[str]


def _rolled(live: RayCluster, snapshot: ClusterSnapshot) -> _Rolled:
    before, after = (without_queue_additions(one.spec) for one in (live, snapshot.cluster))
    found = differences(content(before)["spec"], content(after)["spec"])
    settings = snapshot.settings
    groups = [one.group_name for one in after.worker_group_specs]
    known = {one.group_name for one in before.worker_group_specs}
    changed = [
        name
        for name in (names.HEAD_GROUP, *(one for one in groups if one in known))
        if build(snapshot.cluster, before, name, settings)
        != build(snapshot.cluster, after, name, settings)
    ]
    return _Rolled(frozenset(one.field for one in found), frozenset(changed))


def _need(field: str, rolled: _Rolled, rebuilt: frozenset[str]) -> str:
    """What the edit of one field needs: Recreate, rolling, new Pods, or nothing."""
    for name, why in AT_ONCE.items():
        if field == f"spec.{name}" or field.startswith(f"spec.{name}."):
            return f"needs Recreate: {why}"
    if field in rolled.fields and _concerns(field, rolled.groups):
        mine = sorted(one for one in rolled.groups if _concerns(field, frozenset({one})))
        shown = ["the head" if one == names.HEAD_GROUP else f"group {one}" for one in mine]
        return f"rolls {', '.join(shown)}"
    if _is_for_new_pods(field) and _concerns(field, rebuilt):
        return "for new Pods only"
    return "in place"


def _is_for_new_pods(field: str) -> bool:
    return any(f".template.spec.{one}" in field for one in ADDED_BY_QUEUES)


def _differences(before: RayClusterSpec, after: RayClusterSpec) -> tuple[Difference, ...]:
    return differences(msgspec.to_builtins(before), msgspec.to_builtins(after))


def _rebuilt(live: RayCluster, snapshot: ClusterSnapshot) -> frozenset[str]:
    """The groups, including the head's, whose Pods would be built differently."""
    before, after = _pods_of(live, snapshot.settings), _pods_of(snapshot.cluster, snapshot.settings)
    return frozenset(group for group in before.keys() & after if before[group] != after[group])


def _pods_of(cluster: RayCluster, settings: Settings) -> dict[str, Any]:
    if not ray_container_of(cluster.spec.head_group_spec.template):
        return {}  # invalid: there is nothing to build
    head = build_head_pod(cluster, settings, spec_hash="")
    pods: dict[str, Any] = {names.HEAD_GROUP: head}
    for group in cluster.spec.worker_group_specs:
        if ray_container_of(group.template):
            pods[group.group_name] = group_pod_builder(cluster, group, settings)
    return pods


def _concerns(field: str, groups: frozenset[str]) -> bool:
    """Whether a field concerns one of these groups. A field of no group concerns all of them."""
    if field.startswith("spec.headGroupSpec"):
        return names.HEAD_GROUP in groups
    if field.startswith("spec.workerGroupSpecs["):
        return any(field.startswith(f"spec.workerGroupSpecs[{group}]") for group in groups)
    return bool(groups)


# ── reading once ─────────────────────────────────────────────────────────────────────────


async def _read(client: Client, settings: Settings, cluster: RayCluster) -> Caches:
    reader = Reader(client, cluster.metadata.namespace, {BY_CLUSTER: by_cluster})
    related: dict[str, Any] = {}
    for name, one in selections(settings).items():
        read = reader.listed_if_possible if one.optional else reader.listed
        related[name] = await read(one.resource, one.view, one.labels)
    return Caches(clusters=reader.only(cluster), **related)
