"""The loop: what a round tells the queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

import pytest

from manta.api.meta import Key
from manta.kube.errors import Conflict, Forbidden, MantaError
from manta.reconcile.actions import Call
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.reconcile.plan import NOTHING, Plan, Wait
from manta.runtime.queue import Done, Retry
from manta.runtime.simulation import run_virtual

KEY = Key("default", "x")


class Why(StrEnum):
    TEST = "test"


LATE = Failure(Call("v", KEY, Why.TEST), TimeoutError("late"))
MODIFIED = Conflict(409, "Conflict", "modified")


@dataclass
class Rooms:
    there: bool = True
    answer: Plan = NOTHING
    outcome: Outcome = UNTRIED
    refusal: MantaError | None = None
    steps: list[str] = field(default_factory=list)

    async def observe(self, key: Key) -> Key | None:
        self.steps.append("observe")
        return key if self.there else None

    def plan(self, seen: Key) -> Plan:
        self.steps.append("plan")
        return self.answer

    async def apply(self, seen: Key, plan: Plan) -> Outcome:
        self.steps.append("apply")
        return self.outcome

    async def report(self, seen: Key, plan: Plan, outcome: Outcome) -> bool:
        self.steps.append("report")
        if self.refusal:
            raise self.refusal
        return False

    def idle_delay(self, seen: Key) -> timedelta | None:
        self.steps.append("idle")
        return timedelta(minutes=5)


def result(rooms: Rooms) -> Done | Retry:
    return run_virtual(reconcile(rooms, KEY))


def test_a_round_goes_through_the_rooms_in_order() -> None:
    rooms = Rooms()
    assert result(rooms) == Done(timedelta(minutes=5))
    assert rooms.steps == ["observe", "plan", "apply", "report", "idle"]


def test_an_object_that_is_gone_ends_the_round() -> None:
    rooms = Rooms(there=False)
    assert result(rooms) == Done()
    assert rooms.steps == ["observe"]


def test_a_wait_comes_back_when_it_says() -> None:
    rooms = Rooms(answer=Plan(wait=Wait("head is terminating", timedelta(seconds=10))))
    assert result(rooms) == Done(timedelta(seconds=10))
    assert "idle" not in rooms.steps


def test_a_wait_without_a_time_waits_for_a_change() -> None:
    assert result(Rooms(answer=Plan(wait=Wait("suspended")))) == Done()


def test_a_wait_may_ask_for_backoff() -> None:
    assert result(Rooms(answer=Plan(wait=Wait("deleted", backoff=True)))) == Retry("deleted")


def test_a_failure_is_reported_and_then_retried() -> None:
    rooms = Rooms(outcome=Outcome(failures=(LATE,)))
    assert result(rooms) == Retry("late")
    assert "report" in rooms.steps


def test_a_best_effort_failure_is_no_reason_to_retry() -> None:
    failure = Failure(Call("v", KEY, Why.TEST, must_succeed=False), TimeoutError("late"))
    assert result(Rooms(outcome=Outcome(failures=(failure,)))) == Done(timedelta(minutes=5))


def test_a_conflict_costs_a_fresh_look() -> None:
    assert isinstance(result(Rooms(refusal=MODIFIED)), Retry)


@pytest.mark.parametrize("second", [MODIFIED, Forbidden(403, "Forbidden", "not allowed")])
def test_of_two_errors_the_first_is_told(second: MantaError) -> None:
    rooms = Rooms(outcome=Outcome(failures=(LATE,)), refusal=second)
    assert result(rooms) == Retry("late")


@pytest.mark.parametrize(
    "rooms",
    [
        Rooms(outcome=Outcome(failures=(LATE,))),
        Rooms(outcome=Outcome(failures=(LATE,)), refusal=MODIFIED),
        Rooms(refusal=MODIFIED),
        Rooms(refusal=Forbidden(403, "Forbidden", "not allowed")),
    ],
)
def test_a_failure_does_not_put_off_what_is_due(rooms: Rooms) -> None:
    rooms.answer = Plan(wait=Wait("a deadline", timedelta(seconds=10)))
    told = result(rooms)
    assert isinstance(told, Retry)
    assert told.within == timedelta(seconds=10)
