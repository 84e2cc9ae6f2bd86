"""The reconciler: the order of its phases, and the result that the queue gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any, cast

import pytest

from manta.api.meta import Key, ObjectMeta, Uid, View
from manta.api.resources import CONFIG_MAPS
from manta.kube.client import Client
from manta.kube.errors import Conflict, Forbidden, MantaError
from manta.kube.transport import Transport
from manta.reconcile.actions import Call
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.events import Event
from manta.reconcile.observer import Reconciled
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.reconcile.reconciler import NOW, Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.clock import SystemClock
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager
from manta.runtime.queue import Done, Retry
from support.virtual_time import run_virtual

KEY = Key("default", "x")
SECONDS = timedelta(seconds=10)
MINUTES = timedelta(minutes=5)


class Why(ActionCause):
    TEST = ONLY_FAILURES


LATE = do(Call("v", KEY, Why.TEST))
MODIFIED = Conflict(409, "Conflict", "modified")
REFUSED = Forbidden(403, "Forbidden", "not allowed")


class Status(View, frozen=True, kw_only=True):
    count: int = 0


class Writer:
    def __init__(self, refusal: MantaError | None, *, is_gone: bool = False) -> None:
        self.refusal, self.is_gone = refusal, is_gone

    async def write(self, *_: object) -> bool:
        if self.refusal:
            raise self.refusal
        return not self.is_gone


class Toy(Reconciler[Key, Status]):
    name = "toy"
    exists = True
    answer: Step[Status] = Step()
    delay: timedelta | None = NOW
    resync: timedelta | None = MINUTES
    wakeup: timedelta | None = None

    def __init__(self, answer: Plan = NOTHING, refusal: MantaError | None = None) -> None:
        super().__init__(Manager(Client(cast("Transport", None)), SystemClock(), Random(1)))
        self.answer = Step(answer)
        self._writer = Writer(refusal)  # type: ignore[assignment]
        self.phases: list[str] = []
        self.written: Status | None = None

    def watches(self) -> Sequence[Watch[Any]]:
        return ()

    async def observe(self, key: Key) -> Key | None:
        self.phases.append("observe")
        return key if self.exists else None

    def subject(self, snapshot: Key) -> Subject:
        return Subject(CONFIG_MAPS, ObjectMeta(name=snapshot.name, uid=Uid("u")), Status())

    def plan(self, snapshot: Key) -> Step[Status]:
        self.phases.append("plan")
        return self.answer

    async def call(self, snapshot: Key, action: Call) -> Mapping[str, Any]:
        self.phases.append("call")
        raise TimeoutError("late")

    def next_status(self, snapshot: Key, step: Step[Status], outcome: Outcome) -> Status:
        assert step is self.answer
        self.phases.append("next_status")
        return Status(count=1)

    def status_delay(self, snapshot: Key, new: Status) -> timedelta | None:
        return self.delay

    def status_events(
        self, snapshot: Key, status: Status | None, outcome: Outcome
    ) -> Iterable[Event]:
        self.phases.append("status_events")
        return ()

    def remember(self, snapshot: Key, outcome: Outcome, written: Status | None) -> None:
        self.written = written

    def next_wakeup(self, snapshot: Key, step: Step[Status]) -> timedelta | None:
        self.phases.append("next_wakeup")
        return self.wakeup

    def resync_in(self, snapshot: Key) -> timedelta | None:
        return self.resync


def result(toy: Toy) -> Done | Retry:
    return run_virtual(toy.reconcile(KEY))


def test_the_phases_run_in_order_and_the_step_is_computed_once() -> None:
    toy = Toy(LATE)
    result(toy)
    assert toy.phases == ["observe", "plan", "call", "next_status", "status_events", "next_wakeup"]


def test_an_object_that_is_gone_ends_the_reconcile() -> None:
    toy = Toy()
    toy.exists = False
    assert result(toy) == Done()
    assert toy.phases == ["observe"]


def test_without_timers_the_resync_follows() -> None:
    assert result(Toy()) == Done(MINUTES)


def test_a_wait_comes_back_when_it_says() -> None:
    assert result(Toy(Plan(wait=Wait("head is terminating", SECONDS)))) == Done(SECONDS)


def test_a_wait_without_a_time_waits_for_a_change() -> None:
    toy = Toy(Plan(wait=Wait("suspended")))
    toy.resync = None
    assert result(toy) == Done()


def test_of_all_timers_the_earliest_counts() -> None:
    toy = Toy(Plan(wait=Wait("a deadline", SECONDS)))
    toy.wakeup = SECONDS / 2
    assert result(toy) == Done(SECONDS / 2)
    toy.answer = Step(wake_in=SECONDS / 5)
    assert result(toy) == Done(SECONDS / 5)


def test_a_wait_may_ask_for_backoff_which_replaces_the_resync() -> None:
    assert result(Toy(Plan(wait=Wait("deleted", backoff=True)))) == Retry("deleted")


def test_a_failure_is_reported_and_then_retried() -> None:
    toy = Toy(LATE)
    assert result(toy) == Retry("late")
    assert toy.written == Status(count=1)


def test_a_best_effort_failure_is_no_reason_to_retry() -> None:
    best_effort = do(Call("v", KEY, Why.TEST, must_succeed=False))
    assert result(Toy(best_effort)) == Done(MINUTES)


def test_a_bounded_plan_is_continued_at_once() -> None:
    assert result(Toy(Plan(unfinished="500 more Pods"))) == Done(timedelta(0))


def test_a_conflict_is_retried_without_events() -> None:
    toy = Toy(refusal=MODIFIED)
    assert isinstance(result(toy), Retry)
    assert "status_events" not in toy.phases


def test_a_status_of_an_object_that_is_gone_leaves_no_events() -> None:
    toy = Toy()
    toy._writer = Writer(None, is_gone=True)  # type: ignore[assignment]
    assert result(toy) == Done(MINUTES)
    assert "status_events" not in toy.phases


def test_a_status_that_stays_as_it_is_may_have_events(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy(refusal=REFUSED)
    monkeypatch.setattr(toy, "next_status", lambda *_: Status())
    assert result(toy) == Done(MINUTES)
    assert (toy.written, "status_events" in toy.phases) == (None, True)


def test_a_status_that_is_held_back_is_written_when_its_time_has_come() -> None:
    toy = Toy()
    toy.delay = SECONDS
    assert result(toy) == Done(SECONDS)
    assert (toy.written, toy.phases[-2]) == (None, "status_events")


@pytest.mark.parametrize("second", [MODIFIED, REFUSED])
def test_of_two_errors_the_first_is_reported(second: MantaError) -> None:
    assert result(Toy(LATE, second)) == Retry("late")


@pytest.mark.parametrize(
    ("plan", "refusal"), [(LATE, None), (LATE, MODIFIED), (NOTHING, MODIFIED), (NOTHING, REFUSED)]
)
def test_a_failure_does_not_delay_a_timer(plan: Plan, refusal: MantaError | None) -> None:
    toy = Toy(refusal=refusal)
    toy.answer = Step(plan, wake_in=SECONDS)
    found = result(toy)
    assert isinstance(found, Retry)
    assert found.within == SECONDS


@pytest.mark.parametrize("count", [0, 1])
def test_who_observes_gets_the_new_status_only_if_it_changes(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy, seen = Toy(), list[Reconciled]()
    toy.manager.observer = seen.append
    monkeypatch.setattr(toy, "next_status", lambda *_: Status(count=count))
    result(toy)
    [one] = seen
    assert (one.status, one.written) == ((Status(count=1), True) if count else (None, False))
