"""The Widget of the recorded answers: the texts here are those of a real kube-apiserver 1.35."""

from __future__ import annotations

import copy

import pytest

from manta.localplane.apiserver.schema.causes import Cause, required, summary
from manta.localplane.apiserver.schema.compiled import compile_schema

SPEC = {
    "type": "object",
    "required": ["mode"],
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.name) || self.mode == 'a'",
            "message": "name needs mode a",
            "reason": "FieldValueForbidden",
            "fieldPath": ".name",
        }
    ],
    "properties": {
        "mode": {"type": "string", "enum": ["a", "b"]},
        "replicas": {"type": "integer", "maximum": 10, "default": 1},
        "name": {"type": "string", "maxLength": 5},
        "when": {"type": "string", "format": "date-time"},
        "cpu": {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+m?$",
        },
        "imm": {
            "type": "string",
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "imm is immutable"}
            ],
        },
        "nul": {"type": "string", "nullable": True},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "v": {"type": "string", "default": "dv"}},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "tmpl": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
    },
}
WIDGET = compile_schema(
    {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": SPEC,
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)
NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was "
    "invalid; correct the existing errors to complete validation"
)


def widget(**spec):
    return {"apiVersion": "t.example.com/v1", "kind": "Widget", "metadata": {}, "spec": spec}


def said(causes: list[Cause]) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in causes]


def test_unknown_fields_are_dropped_and_named() -> None:
    obj = widget(mode="a", bogus=1, items=[{"k": "1", "zz": 1}], free={"x": {"y": 1}})
    before = copy.deepcopy(obj)
    unknown: list[str] = []
    pruned = WIDGET.prune(obj, unknown)
    assert unknown == ["spec.bogus", "spec.items[0].zz"]
    assert pruned["spec"] == {"mode": "a", "items": [{"k": "1"}], "free": {"x": {"y": 1}}}
    assert obj == before


def test_an_object_without_unknown_fields_is_returned_as_it_is() -> None:
    obj = widget(mode="a", items=[{"k": "1"}])
    assert WIDGET.prune(obj) is obj


def test_metadata_is_pruned_by_the_server_and_not_by_the_schema() -> None:
    obj = widget(
        mode="a", tmpl={"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "q": 1}}
    )
    obj["metadata"] = {"name": "a", "labels": {"x": "y"}, "odd": 1}
    unknown: list[str] = []
    WIDGET.prune(obj, unknown)
    assert unknown == ["metadata.odd", "spec.tmpl.metadata.q"]
    assert WIDGET.prune(obj)["metadata"] == {"name": "a", "labels": {"x": "y"}}


def test_defaults_are_filled_in_also_inside_lists_and_instead_of_null() -> None:
    obj = widget(mode="a", items=[{"k": "1"}], replicas=None, nul=None)
    filled = WIDGET.default(obj)
    assert filled["spec"]["items"] == [{"k": "1", "v": "dv"}]
    assert filled["spec"]["replicas"] == 1
    assert filled["spec"]["nul"] is None
    assert obj["spec"]["items"] == [{"k": "1"}]
    assert WIDGET.default(filled) is filled


def test_a_null_that_is_not_allowed_counts_as_silence() -> None:
    obj = widget(mode="a", name=None, free={"x": None}, labels={"k": None}, set=[None])
    filled = WIDGET.default(obj)
    assert filled["spec"] == {
        "mode": "a",
        "free": {"x": None},
        "labels": {},
        "set": [None],
        "replicas": 1,
    }


def test_all_that_is_wrong_is_said_in_the_words_of_the_real_server() -> None:
    obj = widget(
        when="nope",
        cpu="x",
        mode="z",
        name="toolong",
        replicas=11,
        set=["a", "a"],
        items=[{"k": "1"}, {"k": "1"}],
    )
    assert said(WIDGET.validate(obj)) == [
        'spec.when: Invalid value: "nope": spec.when in body must be of type date-time: "nope"',
        "spec.cpu: Invalid value: \"x\": spec.cpu in body should match '^[0-9]+m?$'",
        'spec.mode: Unsupported value: "z": supported values: "a", "b"',
        "spec.name: Too long: may not be more than 5 bytes",
        "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
        'spec.set[1]: Duplicate value: "a"',
        'spec.items[1]: Duplicate value: {"k":"1"}',
        NOT_CHECKED,
    ]


def test_a_wrong_type_and_a_missing_field_are_named() -> None:
    assert said(WIDGET.validate(widget(replicas="two"))) == [
        (
            'spec.replicas: Invalid value: "string": spec.replicas in body must be of type '
            'integer: "string"'
        ),
        "spec.mode: Required value",
        NOT_CHECKED,
    ]


def test_an_embedded_resource_says_what_it_is() -> None:
    found = WIDGET.validate(widget(mode="a", tmpl={"spec": {}}))
    assert said(found)[:2] == [
        "spec.tmpl.apiVersion: Required value",
        "spec.tmpl.kind: Required value",
    ]


def test_a_rule_reports_at_its_field_with_its_reason() -> None:
    (cause,) = WIDGET.validate(widget(mode="b", name="x"))
    assert cause == Cause("FieldValueForbidden", "Forbidden: name needs mode a", "spec.name")


def test_a_transition_rule_speaks_only_when_there_was_a_value_before() -> None:
    first, second = widget(mode="a", imm="1"), widget(mode="a", imm="2")
    assert WIDGET.validate(second) == []
    assert WIDGET.validate(second, widget(mode="a")) == []
    assert said(WIDGET.validate(second, first)) == [
        'spec.imm: Invalid value: "2": imm is immutable'
    ]


def test_what_was_wrong_before_and_did_not_change_is_tolerated() -> None:
    old = widget(mode="z", replicas=11)
    assert WIDGET.validate({**old, "metadata": {"labels": {"a": "b"}}}, old) == []
    assert WIDGET.validate(copy.deepcopy(old), old) == []
    worse = widget(mode="z", replicas=12)
    assert [cause.field for cause in WIDGET.validate(worse, old)] == ["spec.replicas"]


def test_a_cause_found_earlier_keeps_the_rules_from_running() -> None:
    found = WIDGET.validate(widget(mode="b", name="x"), earlier=[required("metadata.name")])
    assert said(found) == [NOT_CHECKED]


@pytest.mark.parametrize(
    ("value", "valid"), [(1, True), ("5m", True), (True, False), (1.5, False), (None, False)]
)
def test_int_or_string_accepts_exactly_these(value, valid) -> None:
    assert (WIDGET.validate(widget(mode="a", cpu=value)) == []) is valid


def test_values_of_a_map_are_checked_under_their_key() -> None:
    (cause, _) = WIDGET.validate(widget(mode="a", labels={"x": 1}))
    assert cause.field == "spec.labels.x"


def test_a_whole_number_written_as_a_float_is_an_integer() -> None:
    assert WIDGET.validate(widget(mode="a", replicas=2.0)) == []
    assert WIDGET.validate(widget(mode="a", replicas=True)) != []


def test_the_summary_says_each_thing_once() -> None:
    cause = Cause("FieldValueInvalid", 'Invalid value: "zzz": field is immutable', "metadata.uid")
    assert summary([cause, cause]) == 'metadata.uid: Invalid value: "zzz": field is immutable'
    other = required("spec")
    assert summary([cause, other]).startswith("[metadata.uid: ")
