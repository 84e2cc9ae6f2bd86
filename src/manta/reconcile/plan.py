"""A plan: stages of actions, and whether to continue or to wait after them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from manta.api.conditions import Blockage
from manta.reconcile.actions import Action

MAX_CREATIONS: Final = 500
"""Objects that one plan creates at most, to bound the memory and time of a reconcile. The next
reconciles create the rest."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Plan nothing more in this reconcile. A wait is a decision, not an error."""

    why: str
    retry_in: timedelta | None = None
    """When to reconcile again. None: when something changes, or at the safety resync."""
    backoff: bool = False
    """Reconcile again with growing backoff, as after a failure."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Actions that do not depend on each other. They run concurrently, with slow start."""

    actions: tuple[Action, ...]
    independent: bool = False
    """A failure here does not stop the later stages (C47)."""


@dataclass(frozen=True, slots=True)
class Plan:
    stages: tuple[Stage, ...] = ()
    wait: Wait | None = None
    notes: tuple[str, ...] = ()
    """Why something expected is *not* done. Shown by `manta plan`."""
    unfinished: str = ""
    """What is left to create because of `MAX_CREATIONS`: the next reconcile follows at once."""
    blocked_by: Blockage | None = None
    """What the object waits for, for its conditions. None: nothing but time."""

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for stage in self.stages for action in stage.actions)

    def then(self, later: Plan) -> Plan:
        return replace(
            later,
            stages=self.stages + later.stages,
            notes=self.notes + later.notes,
            blocked_by=self.blocked_by or later.blocked_by,
            unfinished=self.unfinished or later.unfinished,
        )


NOTHING = Plan()


def do(*actions: Action, wait: Wait | None = None, independent: bool = False) -> Plan:
    """One stage of these actions; no stage at all when there are none."""
    stages = (Stage(actions, independent=independent),) if actions else ()
    return Plan(stages, wait)


def merge(plans: Iterable[Plan]) -> Plan:
    """Plans that do not depend on each other: all first stages together, then all second ones."""
    chosen = [one for one in plans if one != NOTHING]
    depth = max((len(plan.stages) for plan in chosen), default=0)
    stages = tuple(
        _merged([plan.stages[level] for plan in chosen if level < len(plan.stages)])
        for level in range(depth)
    )
    notes = tuple(note for plan in chosen for note in plan.notes)
    wait = earliest_wait(plan.wait for plan in chosen)
    unfinished = next((plan.unfinished for plan in chosen if plan.unfinished), "")
    blocked_by = next((plan.blocked_by for plan in chosen if plan.blocked_by), None)
    return Plan(stages, wait, notes, unfinished, blocked_by)


def _merged(stages: list[Stage]) -> Stage:
    actions = tuple(action for stage in stages for action in stage.actions)
    return Stage(actions, independent=all(stage.independent for stage in stages))


def earliest_wait(waits: Iterable[Wait | None]) -> Wait | None:
    """The wait with the shortest time. One without a time is the last."""
    given = (wait for wait in waits if wait is not None)
    return min(given, key=lambda wait: wait.retry_in or timedelta.max, default=None)
