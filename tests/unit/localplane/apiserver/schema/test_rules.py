from __future__ import annotations

import pytest

from manta.localplane.apiserver.schema.compiled import compile_schema
from manta.localplane.apiserver.schema.rules import normal_field_path


def validate(spec_schema, spec, old=None):
    schema = compile_schema({"type": "object", "properties": {"spec": spec_schema}})
    before = None if old is None else {"spec": old}
    return [f"{cause.field}: {cause.message}" for cause in schema.validate({"spec": spec}, before)]


def ruled(rule, **schema):
    return {**schema, "x-kubernetes-validations": [rule]}


def test_an_object_is_not_repeated_in_the_message() -> None:
    rule = {"rule": "has(self.a) || has(self.b)", "message": "one is needed"}
    assert validate(ruled(rule, type="object"), {}) == ["spec: Invalid value: one is needed"]


def test_without_a_message_the_rule_is_quoted() -> None:
    schema = ruled({"rule": " self > 1 "}, type="integer")
    assert validate(schema, 1) == ["spec: Invalid value: 1: failed rule: self > 1"]


def test_a_message_can_be_computed_and_falls_back() -> None:
    rule = {
        "rule": "self > 1",
        "message": "too small",
        "messageExpression": "'not ' + string(self)",
    }
    assert validate(ruled(rule, type="integer"), 0) == ["spec: Invalid value: 0: not 0"]
    rule["messageExpression"] = "'not ' + self"
    assert validate(ruled(rule, type="integer"), 0) == ["spec: Invalid value: 0: too small"]


def test_a_failing_rule_names_its_error() -> None:
    schema = ruled({"rule": "self.x == 1"}, type="object")
    assert validate(schema, {}) == [
        'spec: Invalid value: "object": no such key: x evaluating rule: self.x == 1'
    ]


def test_transition_rules_follow_list_elements_by_key() -> None:
    item = ruled(
        {"rule": "self.v >= oldSelf.v", "message": "v shrinks"},
        type="object",
        properties={"k": {"type": "string"}, "v": {"type": "integer"}},
    )
    schema = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    old = [{"k": "a", "v": 5}, {"k": "b", "v": 1}]
    assert validate(schema, [{"k": "b", "v": 2}, {"k": "a", "v": 5}], old) == []
    assert validate(schema, [{"k": "b", "v": 2}, {"k": "a", "v": 4}], old) == [
        "spec[1]: Invalid value: v shrinks"
    ]


def test_values_of_maps_are_named_in_brackets() -> None:
    schema = {"type": "object", "additionalProperties": ruled({"rule": "self > 0"}, type="integer")}
    assert validate(schema, {"x": 0}) == ["spec[x]: Invalid value: 0: failed rule: self > 0"]


def test_a_rule_that_also_covers_creation_sees_an_empty_old_self() -> None:
    rule = {"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": True}
    schema = ruled(rule, type="string")
    assert validate(schema, "a") == []
    assert len(validate(schema, "b", "a")) == 1


def test_a_rule_about_an_unchanged_part_is_run_only_if_it_compares() -> None:
    grows = ruled({"rule": "self > oldSelf"}, type="integer")
    assert len(validate(grows, 1, 1)) == 1
    assert validate(ruled({"rule": "self > 5"}, type="integer"), 1, 1) == []


@pytest.mark.parametrize(
    ("text", "plain"), [(".a", "a"), (".a.b", "a.b"), (".a['b-c']", "a.b-c"), ("", "")]
)
def test_field_paths_are_printed_plainly(text, plain) -> None:
    assert normal_field_path(text) == plain
