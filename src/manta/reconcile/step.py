"""What a planner returns: the actions, the change of the status, and when to reconcile again.

A planner that never changes the status may return a `Plan`: `chain` and `join` turn it into a `Step`.
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
"""From the old status and the outcome of the plan to the new status."""


def unchanged(status: T, _: Outcome) -> T:
    return status


@dataclass(frozen=True)  # slots would forbid Step[T](...): typing sets an attribute
class Step(Generic[T]):
    """`T` is the type of the status."""

    plan: Plan = NOTHING
    status_change: StatusChange[T] = unchanged
    wake_in: timedelta | None = None
    """Reconcile again after this time although nothing changed: `RequeueAfter` of controller-runtime."""

    @property
    def blocked_by(self) -> Blockage | None:
        return self.plan.blocked_by

    @property
    def wakeup(self) -> timedelta | None:
        """The earlier of `wake_in` and the retry of the plan's wait; None if the step has neither."""
        return earliest(self.wake_in, self.plan.wait.retry_in if self.plan.wait else None)


def change_status_after(
    plan: Plan,
    change: Callable[[T], T],
    *,
    requires: Iterable[Action] | None = None,
    wake_in: timedelta | None = None,
) -> Step[T]:
    """A step that changes the status if all required actions succeeded; by default all actions of the plan."""
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
    """Call the planners in order and join their steps. Stop after the first plan that has a `wait`."""
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
