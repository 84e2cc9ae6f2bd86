"""JSON values as YAML: what a YAML reader reads back is what was there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manta.api.documents.reader import read_yaml
from manta.api.documents.writer import to_yaml

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
            "y",
            "ON",
            "nO",
            "22:22",
            "0o14",
            ".inf",
            "a\nb\n",
            "a\n\nb \n\n",
            "a\n  b",
            "# a\nb",
            "- a\n- b",
            "a\n--- \n",
            "a\n\tb",
            " a\nb",
            "\na",
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
    assert read_yaml(to_yaml(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [{"b": 1, "c": []}, "x y"]}, "a:\n- b: 1\n  c: []\n- x y\n"),
        ({"a": {"b": {}}}, "a:\n  b: {}\n"),
        ([[1, 2], []], "- - 1\n  - 2\n- []\n"),
        ({"on": "yes"}, '"on": "yes"\n'),
        ({"a": "b\n  c\n"}, "a: |\n  b\n    c\n"),
        ({"a": {"b": "c\nd"}}, "a:\n  b: |-\n    c\n    d\n"),
        ({"a": "b\n\n"}, "a: |+\n  b\n\n"),
    ],
)
def test_the_form_is_that_of_kubectl(value: Any, text: str) -> None:
    assert to_yaml(value) == text
