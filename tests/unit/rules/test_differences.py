"""What differs between two specs, as a user would name it."""

from __future__ import annotations

from typing import Any

import pytest

from manta.rules.differences import differences


def reported(before: Any, after: Any) -> list[str]:
    return [str(one) for one in differences(before, after)]


def test_equal_specs_differ_in_nothing() -> None:
    spec = {"a": [{"name": "x"}], "b": {"c": 1}}
    assert reported(spec, {**spec}) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"rayVersion": "2.9"}, {"rayVersion": "2.10"}, 'spec.rayVersion: "2.9" -> "2.10"'),
        ({}, {"suspend": True}, "spec.suspend: added: true"),
        ({"suspend": True}, {}, "spec.suspend: removed (was true)"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1]}}, "spec.a.b: [1, 2] -> [1]"),
        ({"a": []}, {"a": [{"name": "x"}]}, 'spec.a: [] -> [{"name": "x"}]'),
    ],
)
def test_a_field_is_reported_with_both_values(before: Any, after: Any, words: str) -> None:
    assert reported(before, after) == [words]


def test_named_items_are_compared_by_name_wherever_they_stand() -> None:
    before = {"workerGroupSpecs": [{"groupName": "a", "replicas": 1}]}
    after = {
        "workerGroupSpecs": [
            {"groupName": "new", "replicas": 5},
            {"groupName": "a", "replicas": 2},
        ]
    }
    assert reported(before, after) == [
        "spec.workerGroupSpecs[a].replicas: 1 -> 2",
        'spec.workerGroupSpecs[new]: added: {"groupName": "new", "replicas": 5}',
    ]


def test_items_without_names_are_compared_by_their_place() -> None:
    before = {"rules": [{"port": 1}, {"port": 2}]}
    assert reported(before, {"rules": [{"port": 1}, {"port": 3}]}) == ["spec.rules[1].port: 2 -> 3"]


def test_two_items_of_one_name_are_compared_by_their_place() -> None:
    before = {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    after = {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "3"}]}
    assert reported(before, after) == ['spec.env[1].value: "2" -> "3"']


def test_a_long_value_is_cut() -> None:
    [line] = reported({"script": "x" * 500}, {"script": "y"})
    assert len(line) < 120
