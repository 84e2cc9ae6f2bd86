"""Steps: how the answers of planners are joined, and when a status change applies."""

from __future__ import annotations

from datetime import timedelta

from manta.api.conditions import Blockage
from manta.api.meta import Key
from manta.reconcile.actions import Call
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.reconcile.step import Step, chain, change_status_after, earliest, join

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Why(ActionCause):
    TEST = ONLY_FAILURES


ONE = Call("one", Key("default", "x"), Why.TEST)
TWO = Call("two", Key("default", "x"), Why.TEST)
BEST_EFFORT = Call("three", Key("default", "x"), Why.TEST, must_succeed=False)


def append(letter: str) -> Step[str]:
    return Step(status_change=lambda status, _: status + letter)


def test_a_join_keeps_the_order_of_plans_and_status_changes() -> None:
    parts: list[Step[str] | Plan] = [Step(do(ONE)), append("a"), do(TWO), append("b")]
    joined = join(parts)
    assert joined.plan.actions == (ONE, TWO)
    assert joined.status_change("", UNTRIED) == "ab"


def test_a_join_wakes_at_the_earliest_timer_and_names_the_first_blockage() -> None:
    first, second = Blockage("First", "first"), Blockage("Second", "second")
    joined = join([Step[str](wake_in=MINUTE), Step(Plan(blocked_by=first), wake_in=SECOND)])
    assert (joined.wake_in, joined.blocked_by) == (SECOND, first)
    assert join([joined, Step[str](Plan(blocked_by=second))]).blocked_by == first


def test_a_chain_ends_with_the_first_plan_that_waits() -> None:
    waits = Plan(wait=Wait("a head", retry_in=SECOND))
    chained: Step[str] = chain((lambda _: append("a"), lambda _: waits, lambda _: append("b")), 0)
    assert chained.status_change("", UNTRIED) == "a"
    assert (chained.plan.wait, chained.wakeup) == (waits.wait, SECOND)


def test_the_earliest_of_no_time_is_none() -> None:
    assert earliest(None, MINUTE, SECOND) == SECOND
    assert earliest(None) is None


def test_a_status_changes_once_all_actions_of_the_plan_succeeded() -> None:
    step = change_status_after(do(ONE, TWO), str.upper)
    assert step.status_change("a", UNTRIED) == "A"
    failed = Outcome(failures=(Failure(TWO, TimeoutError("late")),))
    assert step.status_change("a", failed) == "a"
    assert step.status_change("a", Outcome(skipped=(ONE,))) == "a"


def test_a_status_change_may_require_some_actions_only() -> None:
    failed = Outcome(failures=(Failure(TWO, TimeoutError("late")),))
    assert (
        change_status_after(do(ONE, TWO), str.upper, requires=(ONE,)).status_change("a", failed)
        == "A"
    )
    assert (
        change_status_after(NOTHING, str.upper, requires=(TWO,)).status_change("a", failed) == "a"
    )


def test_a_failed_best_effort_call_changes_the_status_all_the_same() -> None:
    failed = Outcome(failures=(Failure(BEST_EFFORT, TimeoutError("late")),))
    assert change_status_after(do(BEST_EFFORT), str.upper).status_change("a", failed) == "A"
