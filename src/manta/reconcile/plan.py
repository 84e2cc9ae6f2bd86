"""What a planner may answer: do these things, stage by stage, and then go on or wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

from manta.reconcile.actions import Action

MAX_CREATIONS: Final = 500
"""Objects that one plan creates, whatever number a user typed. A reconcile takes no more memory and
no more time than these need; the rest is for the reconciles that follow."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Plan nothing further this round. A wait is a decision, not an error."""

    why: str
    retry_in: timedelta | None = None
    """When to look again. None: only when something changes, or by the queue's safety resync."""
    backoff: bool = False
    """Come back with the queue's growing backoff, as after a failure (KubeRay does so after it
    deleted unhealthy Pods)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Actions that do not depend on each other: performed concurrently, with slow start."""

    actions: tuple[Action, ...]
    independent: bool = False
    """A failure here does not stop the later stages (C47: one failing object must not stop
    what does not depend on it)."""


@dataclass(frozen=True, slots=True)
class Plan:
    stages: tuple[Stage, ...] = ()
    wait: Wait | None = None
    notes: tuple[str, ...] = ()
    """Why something expected was *not* done. Logged at debug, shown by `manta plan`."""
    unfinished: str = ""
    """What is left because a plan is bounded (`MAX_CREATIONS`): the next reconcile follows at once."""

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for stage in self.stages for action in stage.actions)

    def then(self, later: Plan) -> Plan:
        return replace(
            later,
            stages=self.stages + later.stages,
            notes=self.notes + later.notes,
            unfinished=self.unfinished or later.unfinished,
        )


S = TypeVar("S")

NOTHING = Plan()


def do(*actions: Action, wait: Wait | None = None, independent: bool = False) -> Plan:
    """One stage of these actions; no stage at all when there are none."""
    stages = (Stage(actions, independent=independent),) if actions else ()
    return Plan(stages, wait)


def chain(planners: Iterable[Callable[[S], Plan]], seen: S) -> Plan:
    """Join the planners' answers in order, up to the first that waits."""
    plan = NOTHING
    for planner in planners:
        plan = plan.then(planner(seen))
        if plan.wait:
            break
    return plan
