"""Merge patches between two values."""

from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.builtin.merging import merge_patch, view_patch
from manta.localplane.builtin.views import JobStatus, Uncounted


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_the_patch_says_only_what_differs(
    old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert merge_patch(old, new) == patch


def test_a_list_that_became_empty_is_taken_out_of_a_nested_view() -> None:
    old = JobStatus(active=1, uncounted_terminated_pods=Uncounted(failed=("a",)))
    new = JobStatus(uncounted_terminated_pods=Uncounted())
    assert view_patch(old, new) == {"active": None, "uncountedTerminatedPods": {"failed": None}}
