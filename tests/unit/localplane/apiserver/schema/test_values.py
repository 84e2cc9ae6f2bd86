from __future__ import annotations

import pytest

from manta.localplane.apiserver.schema.compiled import compile_schema


def complaints(schema, value):
    compiled = compile_schema({"type": "object", "properties": {"v": schema}})
    return [cause.message for cause in compiled.validate({"v": value})]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (
            {"type": "string", "minLength": 2},
            "a",
            'Invalid value: "a": v in body should be at least 2 chars long',
        ),
        (
            {"type": "integer", "minimum": 0},
            -1,
            "Invalid value: -1: v in body should be greater than or equal to 0",
        ),
        (
            {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            0.0,
            "Invalid value: 0.0: v in body should be greater than 0",
        ),
        (
            {"type": "integer", "multipleOf": 3},
            4,
            "Invalid value: 4: v in body should be a multiple of 3",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            "Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            "Invalid value: 0: v in body should have at least 1 items",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
            {"a": "1", "b": "2"},
            "Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
            {},
            "Invalid value: 0: v in body should have at least 1 properties",
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            3,
            'Unsupported value: 3: supported values: "1", "2"',
        ),
        (
            {"type": "boolean"},
            None,
            'Invalid value: "null": v in body must be of type boolean: "null"',
        ),
    ],
)
def test_a_value_beyond_its_limit_is_refused_in_the_known_words(schema, value, message) -> None:
    assert complaints(schema, value) == [message]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-11-15T06:37:50.123Z", "2026-13-15T06:37:50Z"),
        ("date", "2026-02-28", "2026-02-30"),
        ("duration", "1h30m", "soon"),
        ("byte", "Yg==", "Y"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("uuid", "8a8646fc-6474-436c-96d5-ec090a687ece", "8a8646fc"),
        ("hostname", "a.b-c.example", "-a"),
        ("uri", "https://a/b", "no uri"),
    ],
)
def test_known_formats_are_checked(name, good, bad) -> None:
    schema = {"type": "string", "format": name}
    assert complaints(schema, good) == []
    assert complaints(schema, bad) == [
        f'Invalid value: "{bad}": v in body must be of type {name}: "{bad}"'
    ]


def test_a_number_where_a_format_is_wanted_is_called_by_its_go_name() -> None:
    schema = {"type": "string", "format": "date-time"}
    assert complaints(schema, 1) == [
        'Invalid value: "int64": v in body must be of type date-time: "int64"'
    ]


def test_unknown_formats_and_int32_are_only_remarks() -> None:
    assert complaints({"type": "string", "format": "colour"}, "x") == []
    assert complaints({"type": "integer", "format": "int32"}, 3_000_000_000) == []


@pytest.mark.parametrize(
    ("schema", "value", "first"),
    [
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, "at least one schema (anyOf)"),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "1", "b": "1"},
            "one and only one schema (oneOf). Found 2 valid alternatives",
        ),
        ({"not": {"required": ["a"]}}, {"a": "1"}, "must not validate the schema (not)"),
    ],
)
def test_combined_schemas_are_attributed_to_no_field(schema, value, first) -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    compiled = compile_schema(
        {
            "type": "object",
            "properties": {"v": {"type": "object", "properties": properties} | schema},
        }
    )
    cause = compiled.validate({"v": value})[0]
    assert cause.field == "<nil>"
    assert cause.message.startswith('Invalid value: "": "v" must')
    assert cause.message.endswith(first)


def test_all_of_lists_what_each_branch_says() -> None:
    schema = {"type": "string", "allOf": [{"maxLength": 1}, {"minLength": 1}]}
    assert complaints(schema, "abc") == [
        "Too long: may not be more than 1 byte",
        'Invalid value: "": "v" must validate all the schemas (allOf)',
    ]
