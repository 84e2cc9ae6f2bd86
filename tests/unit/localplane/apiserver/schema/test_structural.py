from __future__ import annotations

import pytest

from manta.localplane.apiserver.schema.structural import check_structural

PATH = "spec.validation.openAPIV3Schema"


def said(properties=None, **schema):
    full = {"type": "object", "properties": properties or {}, **schema}
    return [f"{cause.field}: {cause.message}" for cause in check_structural(full, PATH)]


def test_a_property_without_a_type_is_refused_as_recorded() -> None:
    assert said({"spec": {}}) == [
        (
            "spec.validation.openAPIV3Schema.properties[spec].type: Required value: "
            "must not be empty for specified object fields"
        )
    ]


def test_a_good_schema_has_no_causes() -> None:
    items = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    assert (
        said(
            {
                "a": {"type": "array", "items": items, "x-kubernetes-list-type": "map"}
                | {"x-kubernetes-list-map-keys": ["k"]},
                "b": {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                },
                "c": {"x-kubernetes-preserve-unknown-fields": True},
                "d": {"type": "string", "default": "x", "enum": ["x"]},
                "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            }
        )
        == []
    )


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"a": {"type": "array"}}, "properties[a].items: Required value: must be specified"),
        ({"a": {"type": "text"}}, "properties[a].type: Unsupported value"),
        (
            {"a": {"type": "string", "pattern": "("}},
            'properties[a].pattern: Invalid value: "(": must be a valid regular expression',
        ),
        (
            {"a": {"type": "string", "anyOf": [{"type": "string"}]}},
            "properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            {
                "a": {
                    "type": "object",
                    "properties": {"b": {"type": "string"}},
                    "additionalProperties": True,
                }
            },
            "properties[a].additionalProperties: Forbidden",
        ),
        (
            {"a": {"type": "integer", "default": "x"}},
            'properties[a].default: Invalid value: "string"',
        ),
        (
            {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "frob(self)"}]}},
            (
                'properties[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"frob(self)","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: '
                "compilation failed: ERROR: <input>:1:5: undeclared reference to 'frob'"
            ),
        ),
        (
            {"a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}},
            "properties[a].items.type: Invalid value",
        ),
        (
            {
                "a": {
                    "type": "object",
                    "properties": {"b": {"type": "string"}},
                    "x-kubernetes-validations": [{"rule": "self.c == 'x'"}],
                }
            },
            "properties[a].x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            {
                "a": {
                    "type": "array",
                    "items": {
                        "type": "string",
                        "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
                    },
                }
            },
            "properties[a].items.x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            {
                "a": {
                    "type": "object",
                    "properties": {"b": {"type": "string"}},
                    "default": {"c": "1"},
                }
            },
            'properties[a].default: Invalid value: {"c":"1"}: must not have unknown fields',
        ),
        (
            {"a": {"type": "string", "x-kubernetes-map-type": "atomic"}},
            'properties[a].type: Invalid value: "string": must be object if x-kubernetes-map-type',
        ),
        ({"metadata": {"type": "object", "required": ["name"]}}, "properties[metadata]: Forbidden"),
        ({"kind": {"type": "integer"}}, "properties[kind].type: Invalid value"),
    ],
)
def test_what_is_not_structural_is_named(properties, complaint) -> None:
    assert any(line.startswith(f"{PATH}.{complaint}") for line in said(properties)), said(
        properties
    )


def test_the_root_is_an_object() -> None:
    found = check_structural({"type": "string"}, PATH)
    assert found[0].message.endswith("must be object at the root")
