"""An incremental upgrade walks in steps that never leave the traffic without capacity."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from manta.rules.upgrade import Rollout, RolloutOptions, Share, due_in, next_capacity, next_traffic

START = datetime(2026, 1, 1, tzinfo=UTC)


def begin(options: RolloutOptions) -> Rollout:
    return Rollout(Share(100, 100), Share(0, 0), options)


def walk(rollout: Rollout, interval: timedelta) -> list[str]:
    """Alternate capacity and traffic with time passing; the story of what changed."""
    story, now = [], START
    for _ in range(400):
        if rollout.is_finished or rollout.is_rolled_back:
            return [*story, "done"]
        for name, move in (("capacity", next_capacity), ("traffic", _traffic(now))):
            after = move(rollout)
            if after != rollout:
                story.append(_reported(name, after))
            rollout = after
        now += interval
    raise AssertionError(f"it never ends: {rollout}")


def _traffic(now: datetime):
    return lambda rollout: next_traffic(rollout, now, gaining_is_ready=True)


def _reported(name: str, rollout: Rollout) -> str:
    a, p = rollout.active, rollout.pending
    if name == "capacity":
        return f"capacity {a.capacity}+{p.capacity}"
    return f"traffic {a.traffic}+{p.traffic}"


def test_the_example_of_the_contract_reads_as_a_story() -> None:
    rollout = begin(RolloutOptions(max_surge=50, step_size=25, interval=timedelta(seconds=10)))
    assert walk(rollout, timedelta(seconds=10)) == [
        "capacity 100+50",
        "traffic 75+25",
        "traffic 50+50",
        "capacity 50+50",
        "capacity 50+100",
        "traffic 25+75",
        "traffic 0+100",
        "capacity 0+100",
        "done",
    ]


def test_a_rollback_walks_the_same_way_back() -> None:
    options = RolloutOptions(max_surge=50, step_size=25, interval=timedelta(seconds=10))
    half = next_traffic(next_capacity(begin(options)), START, gaining_is_ready=True)
    assert walk(replace(half, rolling_back=True), timedelta(seconds=10)) == [
        "traffic 100+0",
        "capacity 100+0",
        "done",
    ]


def test_traffic_waits_for_its_interval_and_for_a_cluster_that_is_ready() -> None:
    options = RolloutOptions(max_surge=100, step_size=10, interval=timedelta(seconds=60))
    ready = next_capacity(begin(options))
    assert next_traffic(ready, START, gaining_is_ready=False) == ready
    moved = next_traffic(ready, START, gaining_is_ready=True)
    later = START + timedelta(seconds=59)
    assert next_traffic(moved, later, gaining_is_ready=True) == moved
    assert due_in(moved, later) == timedelta(seconds=1)


paces = st.builds(
    lambda surge, step: RolloutOptions(surge, min(step, surge), timedelta(seconds=5)),
    st.integers(1, 100),
    st.integers(1, 100),
)


@given(paces, st.integers(0, 300), st.booleans())
def test_traffic_never_exceeds_capacity_and_every_walk_ends(
    options: RolloutOptions, turn: int, back: bool
) -> None:
    rollout, now = begin(options), START
    for number in range(1000):
        if rollout.is_finished or rollout.is_rolled_back:
            break
        if back and number == turn:
            rollout = replace(rollout, rolling_back=True)
        rollout = next_capacity(rollout)
        rollout = next_traffic(rollout, now, gaining_is_ready=True)
        now += options.interval
        for share in (rollout.active, rollout.pending):
            assert 0 <= share.traffic <= 100
        assert rollout.active.traffic + rollout.pending.traffic == 100
        gaining = rollout.active if rollout.rolling_back else rollout.pending
        assert gaining.traffic <= gaining.capacity
        assert rollout.active.capacity + rollout.pending.capacity <= 100 + options.max_surge
    assert rollout.is_finished or rollout.is_rolled_back


def test_traffic_moves_again_exactly_when_the_interval_has_passed() -> None:
    options = RolloutOptions(max_surge=50, step_size=25, interval=timedelta(seconds=10))
    moved = next_traffic(next_capacity(begin(options)), START, gaining_is_ready=True)
    early, due = START + timedelta(seconds=9), START + timedelta(seconds=10)
    assert next_traffic(moved, early, gaining_is_ready=True) == moved
    assert next_traffic(moved, due, gaining_is_ready=True).pending.traffic == 50
