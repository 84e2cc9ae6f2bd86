"""Values as Go prints them."""

from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.apiserver.patching.go_text import go_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, "x"], "a": None}, "map[a:<nil> b:[1 x]]"),
        ({}, "map[]"),
        ([], "[]"),
        (True, "true"),
        (1.0, "1"),
        (1.5, "1.5"),
        ("text", "text"),
    ],
)
def test_a_value_is_printed_as_go_prints_it(value: Any, text: str) -> None:
    assert go_text(value) == text
