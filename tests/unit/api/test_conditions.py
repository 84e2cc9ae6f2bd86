"""Conditions: the transition time moves with the status only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from manta.api.codec import to_json
from manta.api.conditions import find, is_true, remove, set_condition
from manta.api.meta import Condition

EARLY = datetime(2026, 1, 1, tzinfo=UTC)
LATE = datetime(2026, 1, 2, tzinfo=UTC)


def a_condition(status: str = "True", **words: Any) -> Condition:
    return Condition(type="Ready", status=status, **words)


def test_a_new_condition_is_appended_with_the_time_of_now() -> None:
    other = Condition(type="Other", status="False")
    first, second = set_condition([other], a_condition(), EARLY)
    assert first is other
    assert second.last_transition_time == "2026-01-01T00:00:00Z"


def test_the_same_status_keeps_its_transition_time_but_takes_the_new_words() -> None:
    before = set_condition((), a_condition(reason="A"), EARLY)
    [after] = set_condition(before, a_condition(reason="B", message="new"), LATE)
    assert (after.reason, after.message) == ("B", "new")
    assert after.last_transition_time == "2026-01-01T00:00:00Z"


def test_a_changed_status_moves_the_transition_time() -> None:
    before = set_condition((), a_condition(), EARLY)
    [after] = set_condition(before, a_condition(status="False"), LATE)
    assert after.last_transition_time == "2026-01-02T00:00:00Z"


def test_a_time_that_is_given_is_used_for_a_transition() -> None:
    given = a_condition(last_transition_time="2025-05-05T00:00:00Z")
    [first] = set_condition((), given, EARLY)
    assert first.last_transition_time == "2025-05-05T00:00:00Z"


def test_find_and_remove_go_by_type() -> None:
    conditions = (a_condition("False"), Condition(type="Other", status="Unknown"))
    assert find(conditions, "Ready") is conditions[0]
    assert find(conditions, "Absent") is None
    assert remove(conditions, "Ready") == (conditions[1],)


def test_true_is_said_only_by_a_condition_that_is_there() -> None:
    conditions = (a_condition("False"), Condition(type="Other", status="Unknown"))
    assert not is_true(conditions, "Ready")
    assert not is_true(conditions, "Other")
    assert is_true((a_condition(),), "Ready")


def test_a_condition_is_written_with_all_fields_that_the_api_requires() -> None:
    assert to_json(Condition(type="Ready", status="True")) == {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "",
        "lastTransitionTime": "",
    }
