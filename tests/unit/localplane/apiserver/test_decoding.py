"""Bodies, read: formats, types, duplicates."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.httpserver.messages import HttpRequest
from manta.localplane.apiserver.builtin_kinds.go_values import json_type
from manta.localplane.apiserver.decoding import (
    Malformed,
    duplicate_fields,
    read_json,
    read_object,
    read_yaml,
)
from manta.localplane.apiserver.status_errors import StatusError
from support.served import built_in

CONFIG_MAPS = built_in("", "v1", "configmaps")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below),
    max_leaves=10,
)


def test_json_and_yaml_say_the_same() -> None:
    assert read_json(b'{"a":[1,"x"]}') == read_yaml(b"a:\n- 1\n- x\n") == {"a": [1, "x"]}


def test_times_in_yaml_stay_text() -> None:
    assert read_yaml(b"a: 2026-11-15T08:00:00Z\nb: 2026-11-15\n") == {
        "a": "2026-11-15T08:00:00Z",
        "b": "2026-11-15",
    }


@pytest.mark.parametrize("body", [b"{", b"a: [", b"\x80", b"? {a: 1}\n: 2\n"])
def test_what_is_neither_is_malformed(body) -> None:
    with pytest.raises(Malformed):
        read_yaml(body)


def test_deep_nesting_is_malformed_and_no_crash() -> None:
    with pytest.raises(Malformed):
        read_json(b"[" * 100_000)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a":1,"b":{"c":1}}', []),
        (b'{"a":1,"a":2}', ['duplicate field "a"']),
        (
            b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":1}]}',
            ['duplicate field "a.b"', 'duplicate field "c[0].d"'],
        ),
        (b'{"a":"text \\": with quotes"}', []),
    ],
)
def test_doubled_members_are_found(body, found) -> None:
    assert duplicate_fields(HttpRequest("POST", "/", body=body), read_json(body)) == found


def test_doubled_keys_of_a_yaml_body_are_found() -> None:
    body, headers = b"a: 1\na: 2\n", {"content-type": "application/yaml"}
    request = HttpRequest("POST", "/", headers=headers, body=body)
    assert duplicate_fields(request, read_yaml(body)) == ['line 2: key "a" already set in map']


def test_a_tag_of_another_language_makes_no_object() -> None:
    assert read_yaml(b"a: !!python/object:os.system x") == {"a": "x"}


@given(VALUES)
def test_json_without_doubles_has_none(value) -> None:
    body = json.dumps({"x": value}).encode()
    assert duplicate_fields(HttpRequest("POST", "/", body=body), json.loads(body)) == []


@pytest.mark.parametrize(
    "meta",
    [
        [],
        {"name": 1},
        {"labels": {"a": 1}},
        {"labels": []},
        {"finalizers": [1]},
        {"ownerReferences": ["x"]},
        {"annotations": {"a": False}},
    ],
)
def test_metadata_of_wrong_types_is_refused(meta) -> None:
    request = HttpRequest("POST", "/", body=json.dumps({"metadata": meta}).encode())
    with pytest.raises(StatusError) as refused:
        read_object(request, CONFIG_MAPS)
    assert refused.value.code == 400
    assert "cannot unmarshal" in refused.value.message


def test_nulls_in_metadata_count_as_absent() -> None:
    request = HttpRequest("POST", "/", body=b'{"metadata":{"name":"a","labels":null}}')
    assert read_object(request, CONFIG_MAPS)["metadata"] == {"name": "a"}


def test_types_have_gos_names() -> None:
    shown = [json_type(value) for value in (True, 1, 1.5, "x", [], {}, None)]
    assert shown == ["bool", "number", "number", "string", "array", "object", "null"]
