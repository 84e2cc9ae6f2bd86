"""What the operator would do with a RayService now: for `manta plan`.

It uses the snapshot, the planners and the status of a real reconcile, on objects that are read once. It
queries no dashboard: the last report of Serve is read from the status. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any, cast

import msgspec

from manta.api.core import Pod, Service
from manta.api.discovery import EndpointSlice
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayServiceStatus
from manta.api.resources import ENDPOINT_SLICES, PODS, SERVICES
from manta.controllers.rayservice.caches import INDEXES, SERVE_SLICES, CachedRayService, Caches
from manta.controllers.rayservice.canary_messages import rejected_message, uncounted_gpus
from manta.controllers.rayservice.dashboard_query import due_query
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.clusters import (
    is_rolling_back,
    is_up_to_date,
    is_upgrade_due,
    matches_spec,
    rejection,
)
from manta.controllers.rayservice.facts.phase import Phase, phase
from manta.controllers.rayservice.observe import Observer
from manta.controllers.rayservice.plan import plan
from manta.controllers.rayservice.snapshot import ClusterView, DashboardReply, ServiceSnapshot
from manta.controllers.rayservice.status import next_status
from manta.controllers.rayservice.submissions import SubmissionMemory
from manta.kube.client import Client
from manta.reconcile.actions import Action
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.preview import (
    Document,
    Preview,
    Reader,
    first_plan,
    live_and_wanted,
    with_finalizer,
)
from manta.rules.canary import weights
from manta.rules.differences import Difference, differences
from manta.rules.selection import RAY_PODS
from manta.rules.serve_config import parse_serve_config
from manta.rules.settings import Settings
from manta.rules.spec_hash import hashed_part
from manta.rules.validation.service import max_surge
from manta.rules.validation.violation import Violation
from manta.runtime.clock import Clock

_CLUSTER = "spec.rayClusterConfig"
_CONFIG = "serveConfigV2"


class Effect(StrEnum):
    NOTHING = "nothing changes"
    INVALID = "nothing is done: the spec is invalid"
    SERVE_CONFIG = "Serve config in place"
    WORKER_GROUPS = "worker groups in place"
    BOTH_IN_PLACE = "Serve config and worker groups in place"
    OTHERS_IN_PLACE = "updated in place; no cluster is replaced"
    FIRST = "the first cluster is created"
    NEW_CLUSTER = "new cluster with zero downtime: traffic moves once it can serve"
    INCREMENTAL = "new cluster with zero downtime: traffic and capacity move in steps"
    CANARY = "new cluster with zero downtime: it takes traffic and GPUs from the old one in steps"
    ROLLBACK = "traffic and capacity move back to the active cluster"
    PENDING_DROPPED = "the pending cluster is deleted, the active one keeps serving"
    KEPT = "the cluster stays as it is: the upgrade strategy is None"
    SUSPENDED = "all clusters, Services, Gateway and HTTPRoute are deleted"
    STAYS_SUSPENDED = "it is suspended: nothing is created until spec.suspend is false"
    DELETED = "all clusters are deleted"


_REPLACEMENTS = (Effect.NEW_CLUSTER, Effect.INCREMENTAL, Effect.CANARY, Effect.KEPT)


async def preview(
    client: Client,
    settings: Settings,
    clock: Clock,
    key: Key,
    manifest: Mapping[str, Any] | None = None,
) -> Preview | None:
    """Preview the live object, or the object with this manifest applied.

    None if there is no such object, or another operator manages it.
    """
    live, wanted = await live_and_wanted(client, RAY_SERVICES, key, manifest)
    if wanted is None:
        return None
    snapshot = await read_snapshot(client, settings, clock, key, wanted)
    return preview_of(snapshot, _changes(live, wanted)) if snapshot else None


def preview_of(snapshot: ServiceSnapshot, changes: tuple[str, ...] = ()) -> Preview:
    _, chosen = first_plan(snapshot, lambda one: plan(one).plan, _after_status)
    effect = _effect(snapshot, chosen.actions)
    return Preview(
        effect,
        chosen,
        violations=tuple(str(one) for one in snapshot.violations),
        changes=changes,
        remarks=tuple(_remarks(snapshot, effect)),
    )


def _after_status(snapshot: ServiceSnapshot) -> ServiceSnapshot | None:
    new = next_status(snapshot, plan(snapshot), UNTRIED)
    if new == snapshot.status:
        return None
    return replace(snapshot, service=msgspec.structs.replace(snapshot.service, status=new))


# ── the effect ───────────────────────────────────────────────────────────────────────────


def _effect(snapshot: ServiceSnapshot, actions: tuple[Action, ...]) -> Effect:
    match phase(snapshot):
        case Phase.DELETING:
            return Effect.DELETED
        case Phase.INVALID:
            return Effect.INVALID
        case Phase.SUSPEND_REQUESTED | Phase.SUSPENDING if snapshot.active or snapshot.pending:
            return Effect.SUSPENDED
        case Phase.SUSPEND_REQUESTED | Phase.SUSPENDING | Phase.SUSPENDED:
            return Effect.STAYS_SUSPENDED
        case Phase.TIMED_OUT:
            return Effect.NOTHING
        case Phase.RESUMING | Phase.RECOVERING | Phase.NEW:
            return Effect.FIRST
        case Phase.SERVING:
            return _another_cluster(snapshot) or _update_in_place(actions)


def _another_cluster(snapshot: ServiceSnapshot) -> Effect | None:
    """How clusters are replaced; None if they stay."""
    newer = Effect.INCREMENTAL if snapshot.is_incremental else Effect.NEW_CLUSTER
    newer = Effect.CANARY if snapshot.is_canary else newer
    if snapshot.active is None and snapshot.pending is None:
        return Effect.FIRST
    if is_rolling_back(snapshot):
        return Effect.ROLLBACK
    if is_upgrade_due(snapshot):
        return newer
    if snapshot.pending is not None and not matches_spec(snapshot, snapshot.pending):
        return Effect.PENDING_DROPPED if is_up_to_date(snapshot, snapshot.active) else newer
    newest = snapshot.pending or snapshot.active
    return None if matches_spec(snapshot, newest) else Effect.KEPT


def _update_in_place(actions: tuple[Action, ...]) -> Effect:
    causes = {one.cause for one in actions}
    config = Cause.SUBMIT_CONFIG in causes
    groups = bool(causes & {Cause.UPDATE_CLUSTER, Cause.ADOPT_CLUSTER})
    match config, groups:
        case True, True:
            return Effect.BOTH_IN_PLACE
        case True, False:
            return Effect.SERVE_CONFIG
        case False, True:
            return Effect.WORKER_GROUPS
        case _:
            return Effect.OTHERS_IN_PLACE if actions else Effect.NOTHING


# ── changed fields and remarks ───────────────────────────────────────────────────────────


def _changes(live: Document | None, wanted: Document) -> tuple[str, ...]:
    if live is None:
        return ()
    return tuple(str(one) for one in differences(_readable(live), _readable(wanted)))


def _readable(document: Document) -> dict[str, Any]:
    """The spec with its Serve config parsed, so that differences name its fields."""
    spec = dict(document.get("spec") or {})
    config = parse_serve_config(spec.get(_CONFIG) or "")
    if not isinstance(config, Violation):
        spec[_CONFIG] = config
    return spec


def _remarks(snapshot: ServiceSnapshot, effect: Effect) -> Iterator[str]:
    if effect in _REPLACEMENTS:
        for one in _causes(snapshot):
            yield f"needs new Pods: {one}"
    if effect is Effect.INCREMENTAL:
        options = snapshot.upgrade_options
        yield (
            f"every {options.interval_seconds} s {options.step_size_percent} % of the traffic moves,"
            f" and {max_surge(options)} % of the capacity at a time"
        )
    if effect is Effect.CANARY:
        shares = ", ".join(f"{weight} %" for weight in weights(snapshot.canary_options))
        yield f"the new cluster gets {shares} of the traffic, one after the other"
        if extra := uncounted_gpus(snapshot):
            yield extra
    if why := rejection(snapshot):
        yield rejected_message(snapshot, why)
    if snapshot.gateway_error:
        yield snapshot.gateway_error


def _causes(snapshot: ServiceSnapshot) -> tuple[Difference, ...]:
    """The fields in which the newest cluster differs from the spec."""
    newest = snapshot.pending or snapshot.active
    if newest is None:
        return ()
    has = msgspec.to_builtins(hashed_part(newest.cluster.spec))
    wants = msgspec.to_builtins(hashed_part(snapshot.spec.ray_cluster_config))
    return differences(has, wants, _CLUSTER)


async def read_snapshot(
    client: Client, settings: Settings, clock: Clock, key: Key, wanted: Document
) -> ServiceSnapshot | None:
    """The snapshot if this object existed; None if the operator would ignore it."""
    document = with_finalizer(wanted, names.FINALIZER_RAY_SERVICE)
    service = msgspec.json.decode(msgspec.json.encode(document), type=CachedRayService)
    reader = Reader(client, key.namespace, INDEXES)
    listed = reader.listed
    caches = Caches(
        ray_services=reader.only(service),
        clusters=await listed(RAY_CLUSTERS, RayCluster),
        pods=await listed(PODS, Pod, RAY_PODS),
        services=await listed(SERVICES, Service),
        slices=await listed(ENDPOINT_SLICES, EndpointSlice, SERVE_SLICES),
    )
    answers = cast("Any", _LastKnownStatus())
    random = Random(0)  # noqa: S311  for the name of a cluster that is never created
    memory = SubmissionMemory()
    observer = Observer(caches, client, answers, clock, random, settings, memory, _NoReadings())
    return await observer.observe(key)


class _NoReadings:
    """Replaces CanaryReadings: reads no metrics."""

    def add_to(self, snapshot: ServiceSnapshot) -> ServiceSnapshot:
        return snapshot

    def forget(self, _: Key) -> None:
        """Nothing is read."""


class _LastKnownStatus:
    """Replaces ServeAnswers: answers with the applications in the RayService's status."""

    def add_to(self, snapshot: ServiceSnapshot) -> ServiceSnapshot:
        status = snapshot.status
        return replace(
            snapshot,
            active=self._answered(snapshot, snapshot.active, status.active_service_status),
            pending=self._answered(snapshot, snapshot.pending, status.pending_service_status),
        )

    def _answered(
        self, snapshot: ServiceSnapshot, view: ClusterView | None, side: RayServiceStatus
    ) -> ClusterView | None:
        if view is None or due_query(snapshot, view) is None:
            return view
        return replace(view, answer=DashboardReply(side.application_statuses))

    def forget(self, _: Key) -> None:
        """Nothing is polled."""
