"""Laws of schemas, for any JSON that a client may send."""

from __future__ import annotations

import copy
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.apiserver.schema.causes import summary
from manta.localplane.apiserver.schema.cel import BadExpressionError, compile_expression
from manta.localplane.apiserver.schema.compiled import compile_schema

NAMES = st.sampled_from(["mode", "n", "items", "labels", "free", "deep", "k", "v", "bogus"])
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.sampled_from(["", "a", "x"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)
OBJECTS = st.fixed_dictionaries({"spec": VALUES}, optional={"metadata": VALUES, "bogus": VALUES})

ITEM = {
    "type": "object",
    "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 1}},
}
SPEC = {
    "type": "object",
    "required": ["mode"],
    "properties": {
        "mode": {"type": "string", "enum": ["a", "b"]},
        "n": {"type": "integer", "minimum": 0, "default": 2},
        "items": {
            "type": "array",
            "items": ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "deep": {"type": "object", "properties": {"deep": ITEM}, "default": {"deep": {}}},
    },
    "x-kubernetes-validations": [{"rule": "!has(self.n) || self.n >= 0"}],
}
SCHEMA = compile_schema({"type": "object", "properties": {"spec": SPEC}})


@given(OBJECTS)
def test_pruning_leaves_nothing_unknown_and_changes_nothing_in_place(obj) -> None:
    before = copy.deepcopy(obj)
    pruned = SCHEMA.prune(obj)
    unknown: list[str] = []
    assert SCHEMA.prune(pruned, unknown) is pruned
    assert unknown == []
    assert obj == before


@given(OBJECTS)
def test_defaults_are_filled_in_once(obj) -> None:
    before = copy.deepcopy(obj)
    filled = SCHEMA.default(obj)
    assert SCHEMA.default(filled) is filled
    assert obj == before


@given(OBJECTS)
def test_any_object_can_be_judged_and_the_verdict_can_be_reported(obj) -> None:
    causes = SCHEMA.validate(SCHEMA.default(SCHEMA.prune(obj)))
    assert not causes or summary(causes)


@given(OBJECTS, OBJECTS)
def test_what_did_not_change_is_tolerated(old, new) -> None:
    assert SCHEMA.validate(copy.deepcopy(old), old) == []
    changed = {**old, "metadata": new.get("metadata")}
    assert SCHEMA.validate(changed, old) == []


@given(st.text(alphabet="self.ohas()[]{}'\"!&|<>=+-*/%?:, 0123xy\n", max_size=40))
def test_any_text_is_an_expression_or_is_refused(text) -> None:
    with suppress(BadExpressionError):
        compile_expression(text)
