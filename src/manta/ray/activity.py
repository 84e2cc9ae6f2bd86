"""Whether anybody uses a Ray cluster, by as few questions to its dashboard as possible.

All use of Ray begins with a driver (also that of a Ray Client session), a job that was submitted, or a Serve
application. Tasks, queued demand and actors that are not detached end with the driver or the actor that owns
them. A submitted job and a Serve application are actors too. So the answers about drivers, living actors and
placement groups are complete; a cluster in use mostly answers with the first one.

`NotInUse.evidence` has counters that only grow. While they stay the same, nothing was used in between
either, however long ago the last question was. Whatever is not a whole, well-formed answer is `Unreachable`:
it says nothing about use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

import msgspec

from manta.api.text import one_line
from manta.ray.dashboard import SERVE, Dashboard
from manta.ray.models import Target, Unreachable


class Use(StrEnum):
    """What a cluster is used by; the reason of a condition."""

    DRIVER = "DriverRunning"
    ACTOR = "ActorAlive"
    PLACEMENT_GROUP = "PlacementGroupExists"
    SERVE = "ServeApplicationDeployed"
    COMPONENT = "ComponentActive"


@dataclass(frozen=True, slots=True)
class InUse:
    use: Use
    what: str


@dataclass(frozen=True, slots=True)
class NotInUse:
    evidence: str


Activity = InUse | NotInUse | Unreachable

HOUSEKEEPING: Final = frozenset(
    (
        ("_dataset_stats_actor", "_StatsActor"),
        ("_dataset_stats_summary_actor", "_StatsSummaryActor"),
        ("_train_state_actor", "TrainStateActor"),
        ("AutoscalingCoordinator", "_AutoscalingCoordinatorActor"),
        ("DataUsageCollectionActor", "_UsageCollectionActor"),
    )
)
"""Namespace and class of the detached actors that Ray Data and Ray Train leave behind in every cluster."""
SERVE_INFRASTRUCTURE: Final = frozenset((("serve", "ServeController"), ("serve", "ProxyActor")))
"""They stay when the last application is deleted: then they are no use."""
LIVING_STATES: Final = ("ALIVE", "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
_SECONDS: Final = 2
_ROWS: Final = 100


class _Component(msgspec.Struct, frozen=True):
    is_active: str
    reason: str | None = None
    last_activity_at: float | None = None


class Row(msgspec.Struct, frozen=True):
    """An actor or a placement group."""

    state: str
    name: str | None = None
    class_name: str = ""
    ray_namespace: str | None = None

    @property
    def kind(self) -> tuple[str, str]:
        return (self.ray_namespace or "", self.class_name)


class Rows(msgspec.Struct, frozen=True):
    total: int
    num_after_truncation: int
    num_filtered: int
    result: tuple[Row, ...]
    partial_failure_warning: str | None = None


class _Data(msgspec.Struct, frozen=True):
    result: Rows


class _StateReply(msgspec.Struct, frozen=True):
    data: _Data
    result: bool = True


class _Applications(msgspec.Struct, frozen=True):
    applications: dict[str, msgspec.Raw]


async def read_activity(dashboard: Dashboard, target: Target) -> Activity:
    """Ask until something is in use; at most three questions, unless Serve runs or actors are many."""
    path = f"/api/component_activities?timeout={_SECONDS}"
    drivers = _components(await dashboard.read(target, path, dict[str, _Component]))
    if not isinstance(drivers, NotInUse):
        return drivers
    actors = await _living_actors(dashboard, target)
    if isinstance(actors, Unreachable):
        return actors
    if actors.num_filtered > _ROWS:
        return InUse(Use.ACTOR, f"{actors.num_filtered} actors are alive")
    used = await _use_of_actors(dashboard, target, actors.result)
    if used is not None:
        return used
    groups = await _listed(dashboard, target, "placement_groups", "!=", "REMOVED")
    if isinstance(groups, Unreachable):
        return groups
    if groups.result:
        named = one_line(groups.result[0].name or "without a name", 60)
        return InUse(Use.PLACEMENT_GROUP, f"placement group {named}")
    return NotInUse(f"{drivers.evidence}/{actors.total}/{groups.total}")


def _components(answer: dict[str, _Component] | Unreachable) -> Activity:
    """The drivers, and what the user's own RAY_CLUSTER_ACTIVITY_HOOK adds."""
    if isinstance(answer, Unreachable):
        return answer
    if "driver" not in answer:
        return Unreachable("the dashboard says nothing about drivers")
    for name, one in answer.items():
        if one.is_active == "ACTIVE":
            use = Use.DRIVER if name == "driver" else Use.COMPONENT
            return InUse(use, one_line(f"{name}: {one.reason or 'active'}", 200))
    for name, one in answer.items():
        if one.is_active != "INACTIVE":
            said = one_line(f"{one.is_active}: {one.reason or 'no reason'}", 200)
            return Unreachable(f"the dashboard says of {one_line(name, 40)}: {said}")
    ended = answer["driver"].last_activity_at
    return NotInUse(f"{ended:.3f}" if ended else "0")


async def _living_actors(dashboard: Dashboard, target: Target) -> Rows | Unreachable:
    """Actors that are not dead. Ray cuts its list at 10,000, mostly dead ones: then ask for each state."""
    rows = await _listed(dashboard, target, "actors", "!=", "DEAD", may_be_cut=True)
    if isinstance(rows, Unreachable) or rows.num_after_truncation >= rows.total:
        return rows
    found: list[Row] = []
    for state in LIVING_STATES:
        some = await _listed(dashboard, target, "actors", "=", state)
        if isinstance(some, Unreachable):
            return some
        found += some.result
    return msgspec.structs.replace(rows, result=tuple(found))


async def _use_of_actors(
    dashboard: Dashboard, target: Target, rows: Sequence[Row]
) -> InUse | Unreachable | None:
    others = [one for one in rows if one.kind not in HOUSEKEEPING | SERVE_INFRASTRUCTURE]
    if others:
        named = f" {others[0].name}" if others[0].name else ""
        what = f"actor {others[0].class_name}{named} is {others[0].state}"
        return InUse(Use.ACTOR, one_line(what, 200))
    if not any(one.kind in SERVE_INFRASTRUCTURE for one in rows):
        return None
    serve = await dashboard.read(target, SERVE, _Applications)
    if isinstance(serve, Unreachable):
        return serve
    first = next(iter(serve.applications), None)
    return (
        InUse(Use.SERVE, f"Serve application {one_line(first, 60)}") if first is not None else None
    )


async def _listed(
    dashboard: Dashboard,
    target: Target,
    kind: str,
    predicate: str,
    state: str,
    *,
    may_be_cut: bool = False,
) -> Rows | Unreachable:
    query = {
        "limit": _ROWS,
        "timeout": _SECONDS,
        "filter_keys": "state",
        "filter_predicates": predicate,
        "filter_values": state,
    }
    reply = await dashboard.read(target, f"/api/v0/{kind}?{urlencode(query)}", _StateReply)
    if isinstance(reply, Unreachable):
        return reply
    rows = reply.data.result
    if not reply.result or rows.partial_failure_warning:
        why = one_line(rows.partial_failure_warning or "it failed", 200)
        return Unreachable(f"the list of {kind} is not complete: {why}")
    cut = rows.num_after_truncation < rows.total and not may_be_cut
    if cut or (rows.num_filtered and not rows.result):
        return Unreachable(f"the list of {kind} is not complete: {rows.total} in all")
    return rows
