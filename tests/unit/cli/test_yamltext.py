"""JSON values as YAML: what a YAML reader reads back is what was there."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from manta.cli.yamltext import to_yaml

TEXTS = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "yes",
            "No",
            "null",
            "~",
            "1",
            "1e3",
            "0x1",
            "",
            " a",
            "a ",
            "a: b",
            "- a",
            "# a",
            "a #b",
            "2026-01-01",
            "=",
            "<<",
            "?",
            "*",
            "&a",
            "!a",
            ">",
            "%",
            "@",
            "`",
            "{",
            "[",
            "a,b",
            "a\nb",
            "\x85",
            "\x7f",
        ]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES)
def test_every_value_is_read_back_as_it_was(value: Any) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [{"b": 1, "c": []}, "x y"]}, "a:\n- b: 1\n  c: []\n- x y\n"),
        ({"a": {"b": {}}}, "a:\n  b: {}\n"),
        ([[1, 2], []], "- - 1\n  - 2\n- []\n"),
        ({"on": "yes"}, '"on": "yes"\n'),
    ],
)
def test_the_form_is_that_of_kubectl(value: Any, text: str) -> None:
    assert to_yaml(value) == text
