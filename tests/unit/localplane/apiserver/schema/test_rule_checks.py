from __future__ import annotations

import pytest

from manta.localplane.apiserver.schema.rule_checks import check_rules_of

ITEM = {"type": "object", "properties": {"x": {"type": "integer"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "items": {"type": "array", "items": ITEM},
        "map": {"type": "object", "additionalProperties": ITEM},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def complaints(text, uncorrelated="", **rule):
    schema = {**SCHEMA, "x-kubernetes-validations": [{"rule": text, **rule}]}
    return [cause.message for cause in check_rules_of(schema, "s", uncorrelated)]


@pytest.mark.parametrize(
    "text",
    [
        "self.a == 'x' || has(self.items)",
        "self.items.all(i, i.x > 0)",
        "self.items.filter(i, i.x > 0).exists(j, j.x == 1)",
        "self.items[0].x == 1",
        "self.map['k'].x == 1",
        "self.map.all(k, k == 'k')",
        "self.free.anything == 1",
        "self.metadata.name == 'x'",
        "{'k': [1]}.k[0] == 1",
    ],
)
def test_rules_about_known_fields_are_accepted(text) -> None:
    assert complaints(text) == []


@pytest.mark.parametrize(
    ("text", "field", "column"),
    [
        ("self.c == 1", "c", 5),
        ("has(self.c)", "c", 9),
        ("self.items.all(i, i.y > 0)", "y", 20),
        ("self.items[0].y == 1", "y", 14),
        ("self.map['k'].y == 1", "y", 14),
        ("true ? self.c : 1", "c", 12),
    ],
)
def test_a_field_that_does_not_exist_is_marked(text, field, column) -> None:
    (message,) = complaints(text)
    mark = "." * (column - 1) + "^"
    assert message.endswith(
        f"compilation failed: ERROR: <input>:1:{column}: undefined field '{field}'\n"
        f" | {text}\n | {mark}"
    )


def test_the_rest_of_a_rule_is_checked_too() -> None:
    assert complaints("") == ["Required value: rule is not specified"]
    assert complaints("true", message="a\nb") == [
        'Invalid value: "a\\nb": must not contain line breaks'
    ]
    assert complaints("true", reason="Foo")[0].startswith('Unsupported value: "Foo"')
    assert complaints("true", fieldPath=".zz") == ['Invalid value: ".zz": must be a valid path']
    assert complaints("true", fieldPath=".map.k.x") == []
    assert complaints("self == oldSelf", uncorrelated="s.items")[0].endswith(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within s.items"
    )
