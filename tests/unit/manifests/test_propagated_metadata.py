"""Annotations of a user's spec come and go with it; those of others stay."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.ray import names
from manta.manifests.propagated_metadata import annotation_changes, propagated_metadata


def annotated(**annotations: str) -> dict[str, str]:
    made: dict[str, Any] = propagated_metadata({}, annotations, {})
    return dict(made.get("annotations") or {})


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {}),
        (
            {"a": "1", "b": "2"},
            {"a": "3"},
            {"a": "3", "b": None, names.ANNOTATION_PROPAGATED: "a"},
        ),
        ({"a": "1"}, {}, {"a": None, names.ANNOTATION_PROPAGATED: None}),
        ({}, {"a": "1"}, {"a": "1", names.ANNOTATION_PROPAGATED: "a"}),
    ],
    ids=["as it was", "one changed and one removed", "all removed", "the first"],
)
def test_what_the_spec_no_longer_asks_for_is_removed_and_what_others_wrote_stays(
    before: dict[str, str], after: dict[str, str], changes: dict[str, str | None]
) -> None:
    live = {"of-another": "x", **annotated(**before)}
    assert annotation_changes(live, annotated(**after)) == changes
