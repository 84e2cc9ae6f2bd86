"""RayCronJob: crash safety, convergence, idempotence and bounds, from generated histories.

The scenario here is a dozen lines: a clock, the children by name, and the recorded tick. A history
is any sequence of rounds, each of which may die before its writes, between them, or not at all,
or work from a cache that has not seen the last ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from manta.api.times import parse_time
from manta.controllers.raycronjob.plan import plan
from manta.controllers.raycronjob.snapshot import ChildJob, CronSnapshot
from manta.controllers.raycronjob.status import next_status
from manta.controllers.raycronjob.ticks import next_tick, schedule_of
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import Outcome, Result
from manta.rules.settings import Settings
from support.raycronjob import CREATED, a_child, a_cron, seen
from support.schedules import ticks


class Fate(Enum):
    WELL = auto()
    DIES_BEFORE_WRITING = auto()
    DIES_BEFORE_STATUS = auto()
    STATUS_CONFLICT = auto()
    STALE_CHILDREN = auto()


@dataclass
class Scenario:
    spec: dict[str, Any]
    settings: Settings
    now: datetime = CREATED
    recorded: datetime | None = None
    children: dict[str, ChildJob] = field(default_factory=dict)
    ever: list[str] = field(default_factory=list)
    """Names of all children that were ever created, in order."""

    def look(self, *, stale: bool = False) -> CronSnapshot:
        cron = a_cron(last=self.recorded, **self.spec)
        known = () if stale else tuple(self.children.values())
        return seen(self.now, cron, *known, settings=self.settings)

    def reconcile(self, fate: Fate = Fate.WELL) -> None:
        snapshot = self.look(stale=fate is Fate.STALE_CHILDREN)
        wanted = plan(snapshot).plan
        if fate is Fate.DIES_BEFORE_WRITING:
            return
        done = []
        for action in wanted.actions:
            if isinstance(action, Create):
                self._create(action)
            elif isinstance(action, Delete):
                assert self.children[action.key.name].metadata.uid == action.uid
                del self.children[action.key.name]
            done.append(Result(action, action.key))
        status = next_status(snapshot, Outcome(done=tuple(done)))
        if fate in {Fate.WELL, Fate.STALE_CHILDREN} and status.last_schedule_time:
            self.recorded = parse_time(status.last_schedule_time)

    def _create(self, action: Create) -> None:
        name = action.key.name
        if name in self.children:
            return  # AlreadyExists, ours: done
        marks = action.manifest["metadata"]["annotations"]
        self.children[name] = a_child(parse_time(marks["ray.io/cronjob-scheduled-timestamp"]))
        self.ever.append(name)

    def finish(self, which: int, outcome: str) -> None:
        running = [one for one in self.children.values() if not one.finished and one.tick]
        if running:
            child = running[which % len(running)]
            assert child.tick is not None
            self.children[child.metadata.name] = a_child(child.tick, outcome)


SCHEDULES = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "0 * * * *", "@every 3m", "@hourly", "30 12 * * 1-5"]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(1, 5000)),
        st.tuples(st.just("round"), st.sampled_from(list(Fate))),
        st.tuples(st.just("succeed"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(0, 5)),
    ),
    max_size=40,
)
OPERATORS = st.builds(
    Settings,
    cron_replay_missed=st.booleans(),
    cron_successful_history=st.none() | st.integers(0, 3),
    cron_failed_history=st.none() | st.integers(0, 3),
)


def live(schedule: str, operator: Settings, steps: list[tuple[str, Any]]) -> Scenario:
    scenario = Scenario({"schedule": schedule}, operator)
    for what, how in steps:
        match what:
            case "pass":
                scenario.now += timedelta(seconds=how)
            case "round":
                scenario.reconcile(how)
            case "succeed":
                scenario.finish(how, "SUCCEEDED")
            case _:
                scenario.finish(how, "FAILED")
    return scenario


@given(SCHEDULES, OPERATORS, STEPS)
@settings(max_examples=150, deadline=None)
def test_no_tick_ever_has_two_children(
    schedule: str, operator: Settings, steps: list[tuple[str, Any]]
) -> None:
    scenario = live(schedule, operator, steps)
    assert len(scenario.ever) == len(set(scenario.ever))


@given(SCHEDULES, OPERATORS, STEPS)
@settings(max_examples=60, deadline=None)
def test_every_child_serves_a_tick_of_the_schedule_and_none_before_its_time(
    schedule: str, operator: Settings, steps: list[tuple[str, Any]]
) -> None:
    scenario = live(schedule, operator, steps)
    for child in scenario.children.values():
        assert child.tick is not None
        assert CREATED < child.tick <= scenario.now


@given(SCHEDULES, OPERATORS, STEPS)
@settings(max_examples=60, deadline=None)
def test_once_the_faults_stop_the_latest_tick_is_served_and_then_all_is_quiet(
    schedule: str, operator: Settings, steps: list[tuple[str, Any]]
) -> None:
    scenario = live(schedule, operator, steps)
    rounds = 0
    while plan(scenario.look()).plan.actions or scenario.recorded != _after_round(scenario):
        scenario.reconcile()
        rounds += 1
        assert rounds < 5000
    latest = schedule_of(scenario.look()).latest(scenario.recorded or CREATED, scenario.now)
    assert latest is None
    upcoming = next_tick(scenario.look())
    assert upcoming is not None
    assert upcoming > scenario.now


def _after_round(scenario: Scenario) -> datetime | None:
    status = next_status(scenario.look(), Outcome())
    return parse_time(status.last_schedule_time) if status.last_schedule_time else None


@given(SCHEDULES, st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_kuberays_way_serves_every_tick_of_a_downtime(schedule: str, hours: int) -> None:
    scenario = Scenario({"schedule": schedule}, Settings(cron_replay_missed=True))
    scenario.now = CREATED + timedelta(hours=hours)
    due = list(ticks(schedule_of(scenario.look()), CREATED, scenario.now))
    for _ in due:
        scenario.reconcile()
    assert len(scenario.ever) == len(due)


@given(SCHEDULES, OPERATORS, STEPS)
@settings(max_examples=40, deadline=None)
def test_equal_snapshots_give_equal_plans(
    schedule: str, operator: Settings, steps: list[tuple[str, Any]]
) -> None:
    scenario = live(schedule, operator, steps)
    assert plan(scenario.look()).plan == plan(scenario.look()).plan
