"""What the operator would do about a RayService now, without doing it: for `manta plan`.

The same snapshot, planners and status as in a real round, on objects that are read once from the
server. What Serve said last is read from the status. Nothing is written, and no dashboard is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.plan import Phase, phase, plan
from manta.controllers.rayservice.planners.clusters import (
    fits,
    is_current,
    is_rolling_back,
    is_upgrade_due,
)
from manta.controllers.rayservice.previewed import read_world
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.status import next_status
from manta.kube.client import Client
from manta.reconcile.actions import Action
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.preview import Preview
from manta.reconcile.rehearsal import Document, first_plan, live_and_wanted
from manta.rules.differences import Difference, differences
from manta.rules.serve_config import parse_serve_config
from manta.rules.settings import Settings
from manta.rules.spec_hash import essence
from manta.rules.validation.service import max_surge
from manta.rules.validation.violation import Violation
from manta.runtime.clock import Clock

_CLUSTER = "spec.rayClusterConfig"
_CONFIG = "serveConfigV2"


class Effect(StrEnum):
    NOTHING = "nothing changes"
    REFUSED = "nothing is done: the spec cannot be carried out"
    SERVE_CONFIG = "Serve config in place"
    WORKER_GROUPS = "worker groups in place"
    BOTH_IN_PLACE = "Serve config and worker groups in place"
    AROUND = "changed in place; no cluster is replaced"
    FIRST = "a first cluster is made"
    NEW_CLUSTER = "new cluster with zero downtime: traffic moves once it can serve"
    INCREMENTAL = "new cluster with zero downtime: traffic and capacity move in steps"
    ROLLBACK = "traffic and capacity go back to the active cluster"
    BACK = "the pending cluster goes, the active one serves on"
    HELD_BACK = "the cluster stays as it is: the upgrade strategy is None"
    SUSPENDED = "all clusters, Services and ways in are given back"
    RESTS = "it is suspended: nothing is made until spec.suspend is false"
    DELETED = "all clusters go"


_ANEW = (Effect.NEW_CLUSTER, Effect.INCREMENTAL, Effect.HELD_BACK)


async def preview(
    client: Client,
    settings: Settings,
    clock: Clock,
    key: Key,
    manifest: Mapping[str, Any] | None = None,
) -> Preview | None:
    """Of the live object, or of a manifest laid over it. None: neither is there, or not ours."""
    live, wanted = await live_and_wanted(client, RAY_SERVICES, key, manifest)
    seen = None if wanted is None else await read_world(client, settings, clock, key, wanted)
    if wanted is None or seen is None:
        return None
    return foresee(seen, _changes(live, wanted))


def foresee(seen: ServiceSnapshot, changes: tuple[str, ...] = ()) -> Preview:
    _, chosen = first_plan(seen, plan, _after_status)
    effect = _effect(seen, chosen.actions)
    return Preview(
        effect,
        chosen,
        violations=tuple(str(one) for one in seen.violations),
        changes=changes,
        remarks=tuple(_remarks(seen, effect)),
    )


def _after_status(seen: ServiceSnapshot) -> ServiceSnapshot | None:
    new = next_status(seen, UNTRIED)
    if new == seen.status:
        return None
    return replace(seen, service=msgspec.structs.replace(seen.service, status=new))


# ── in one clause ────────────────────────────────────────────────────────────────────────


def _effect(seen: ServiceSnapshot, actions: tuple[Action, ...]) -> Effect:
    match phase(seen):
        case Phase.LEAVING:
            return Effect.DELETED
        case Phase.INVALID:
            return Effect.REFUSED
        case Phase.SUSPEND_REQUESTED | Phase.SUSPENDING if seen.active or seen.pending:
            return Effect.SUSPENDED
        case Phase.SUSPEND_REQUESTED | Phase.SUSPENDING | Phase.SUSPENDED:
            return Effect.RESTS
        case Phase.TIMED_OUT:
            return Effect.NOTHING
        case Phase.RESUMING | Phase.RECOVERING | Phase.BEGINNING:
            return Effect.FIRST
        case Phase.SERVING:
            return _another_cluster(seen) or _in_place(actions)


def _another_cluster(seen: ServiceSnapshot) -> Effect | None:
    """None: the clusters that there are stay."""
    newer = Effect.INCREMENTAL if seen.is_incremental else Effect.NEW_CLUSTER
    if seen.active is None and seen.pending is None:
        return Effect.FIRST
    if is_rolling_back(seen):
        return Effect.ROLLBACK
    if is_upgrade_due(seen):
        return newer
    if seen.pending is not None and not fits(seen, seen.pending):
        return Effect.BACK if is_current(seen, seen.active) else newer
    newest = seen.pending or seen.active
    return None if fits(seen, newest) else Effect.HELD_BACK


def _in_place(actions: tuple[Action, ...]) -> Effect:
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
            return Effect.AROUND if actions else Effect.NOTHING


# ── which fields, and what else is worth knowing ─────────────────────────────────────────


def _changes(live: Document | None, wanted: Document) -> tuple[str, ...]:
    if live is None:
        return ()
    return tuple(str(one) for one in differences(_readable(live), _readable(wanted)))


def _readable(document: Document) -> dict[str, Any]:
    """With the Serve config as what it says and not as one long text."""
    spec = dict(document.get("spec") or {})
    config = parse_serve_config(spec.get(_CONFIG) or "")
    if not isinstance(config, Violation):
        spec[_CONFIG] = config
    return spec


def _remarks(seen: ServiceSnapshot, effect: Effect) -> Iterator[str]:
    if effect in _ANEW:
        for one in _causes(seen):
            yield f"only other Pods can follow {one}"
    if effect is Effect.INCREMENTAL:
        options = seen.upgrade_options
        yield (
            f"every {options.interval_seconds} s {options.step_size_percent} % of the traffic moves,"
            f" and {max_surge(options)} % of the capacity at a time"
        )
    if seen.gateway_trouble:
        yield seen.gateway_trouble


def _causes(seen: ServiceSnapshot) -> tuple[Difference, ...]:
    """The fields in which the newest cluster is not what the spec wants."""
    newest = seen.pending or seen.active
    if newest is None:
        return ()
    has = msgspec.to_builtins(essence(newest.cluster.spec))
    wants = msgspec.to_builtins(essence(seen.spec.ray_cluster_config))
    return differences(has, wants, _CLUSTER)
