"""What a planner answers: what to do, what that does to the status, and when to look again.

A planner that only acts may answer with a `Plan`: `chain` and `join` take it for a `Step` that
leaves the status alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from manta.api.conditions import Blockage
from manta.reconcile.actions import Action
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import NOTHING, Plan

S = TypeVar("S")
T = TypeVar("T")

StatusChange = Callable[[T, Outcome], T]
"""The status after the plan was executed with this outcome."""


def unchanged(status: T, _: Outcome) -> T:
    return status


@dataclass(frozen=True)  # slots would forbid Step[T](...): typing sets an attribute
class Step(Generic[T]):
    """`T` is the type of the status."""

    plan: Plan = NOTHING
    status_change: StatusChange[T] = unchanged
    wake_in: timedelta | None = None
    """When to reconcile again although nothing changed."""

    @property
    def blocked_by(self) -> Blockage | None:
        return self.plan.blocked_by

    @property
    def wakeup(self) -> timedelta | None:
        """The earliest of this step's timers."""
        return earliest(self.wake_in, self.plan.wait.retry_in if self.plan.wait else None)


def step_then(
    plan: Plan,
    change: Callable[[T], T],
    *,
    requires: Iterable[Action] | None = None,
    wake_in: timedelta | None = None,
) -> Step[T]:
    """Change the status once all required actions succeeded; by default all of the plan's."""
    needed = plan.actions if requires is None else tuple(requires)

    def status_change(status: T, outcome: Outcome) -> T:
        return change(status) if outcome.has_done(needed) else status

    return Step(plan, status_change, wake_in)


def join(steps: Iterable[Step[T] | Plan]) -> Step[T]:
    """All steps as one: plans and status changes in order, the first blockage, the earliest timer."""
    parts = [_as_step(one) for one in steps]
    plan = NOTHING
    for part in parts:
        plan = plan.then(part.plan)

    changes = [part.status_change for part in parts if part.status_change is not unchanged]

    def status_change(status: T, outcome: Outcome) -> T:
        for change in changes:
            status = change(status, outcome)
        return status

    wake_in = earliest(*(part.wake_in for part in parts))
    return Step(plan, status_change if changes else unchanged, wake_in)


def chain(planners: Iterable[Callable[[S], Step[T] | Plan]], snapshot: S) -> Step[T]:
    """Join the planners' answers in order, up to the first whose plan waits."""
    steps: list[Step[T]] = []
    for planner in planners:
        steps.append(_as_step(planner(snapshot)))
        if steps[-1].plan.wait:
            break
    return join(steps)


def earliest(*times: timedelta | None) -> timedelta | None:
    """The shortest of these times; None when none is given."""
    return min((time for time in times if time is not None), default=None)


def _as_step(answer: Step[Any] | Plan) -> Step[Any]:
    return Step(answer) if isinstance(answer, Plan) else answer
