"""Previews: the finalizer that the first reconcile adds."""

from __future__ import annotations

from typing import Any

import pytest

from manta.reconcile.preview import with_finalizer

OURS = "ray.io/finalizer"


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({}, [OURS]),
        ({"finalizers": ["other"]}, ["other", OURS]),
        ({"finalizers": [OURS]}, [OURS]),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, None),
    ],
)
def test_a_living_object_gets_the_finalizer_once(
    meta: dict[str, Any], expected: list[str] | None
) -> None:
    found = with_finalizer({"metadata": {"name": "x", **meta}}, OURS)["metadata"]
    assert found.get("finalizers") == expected
