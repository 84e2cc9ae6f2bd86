"""Conditions: a map by type, whose transition times move with the status and only then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from manta.api.conditions import find, remove, set_condition
from manta.api.meta import Condition
from manta.api.times import format_time

START = datetime(2026, 1, 1, tzinfo=UTC)
conditions = st.builds(
    Condition,
    type=st.sampled_from(["Ready", "Provisioned", "Failed"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["A", "B"]),
    message=st.sampled_from(["", "x"]),
)


@given(st.lists(conditions, max_size=12))
def test_each_type_is_there_once_with_its_last_words_and_its_last_change(
    steps: list[Condition],
) -> None:
    current: tuple[Condition, ...] = ()
    changed: dict[str, tuple[str, str]] = {}
    for number, step in enumerate(steps):
        now = START + timedelta(minutes=number)
        current = set_condition(current, step, now)
        if changed.get(step.type, ("", ""))[0] != step.status:
            changed[step.type] = (step.status, format_time(now))
    assert [one.type for one in current] == list(dict.fromkeys(step.type for step in steps))
    for one in current:
        last = [step for step in steps if step.type == one.type][-1]
        assert (one.status, one.reason, one.message) == (last.status, last.reason, last.message)
        assert one.last_transition_time == changed[one.type][1]


@given(st.lists(conditions, max_size=6), conditions)
def test_setting_twice_is_setting_once(steps: list[Condition], last: Condition) -> None:
    current: tuple[Condition, ...] = ()
    for step in steps:
        current = set_condition(current, step, START)
    once = set_condition(current, last, START)
    assert set_condition(once, last, START + timedelta(hours=1)) == once


@given(st.lists(conditions, max_size=6))
def test_what_is_removed_is_not_found(steps: list[Condition]) -> None:
    current: tuple[Condition, ...] = ()
    for step in steps:
        current = set_condition(current, step, START)
    assert find(remove(current, "Ready"), "Ready") is None
    assert len(remove(current, "Ready")) >= len(current) - 1
