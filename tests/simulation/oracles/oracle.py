"""What an oracle is, and what several of them ask about objects."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from manta.api.ray import names
from manta.api.times import parse_time
from simulation.history import ClusterHistory
from simulation.plane import Written
from simulation.transport import Sent

if TYPE_CHECKING:
    from simulation.world import World

Object = dict[str, Any]
RAY_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")
RAY = tuple(f"{one.lower()}s.ray.io" for one in RAY_KINDS)
CLUSTERS, RAY_JOBS, RAY_SERVICES, CRON_JOBS = RAY


class Oracle:
    """One rule. `name` and the docstring are its row in the table."""

    name = ""

    def __init__(self, world: World, history: ClusterHistory) -> None:
        self.world = world
        self.history = history

    def written(self, written: Written) -> Iterator[str]:
        yield from ()

    def after(self, written: Written) -> Iterator[str]:
        """As `written`, when the history has seen it too."""
        yield from ()

    def sent(self, actor: str, sent: Sent) -> Iterator[str]:
        yield from ()

    def ended(self) -> Iterator[str]:
        """Called when all faults are over and everything had time to converge."""
        yield from ()


def is_operator(actor: str) -> bool:
    return actor.startswith("operator")


def controller_of(found: Object) -> Object | None:
    owners: list[Object] = found["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), None)


def runs(pod: Object) -> bool:
    """Whether the first container of a Pod runs, as far as the API server knows."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in statuses[:1])


def is_head(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get(names.LABEL_NODE_TYPE) == names.NODE_HEAD


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def time_of(text: str) -> datetime:
    return parse_time(text)


def invalid_ones(world: World) -> set[str]:
    """The UIDs of objects that an Event has called invalid."""
    return {uid for reason, _, uid in world.events() if reason.startswith("Invalid")}
