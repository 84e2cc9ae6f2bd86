from __future__ import annotations

import copy

import pytest

from manta.localplane.apiserver.patching.errors import REJECTED, PatchError
from manta.localplane.apiserver.patching.json_patch import apply_json_patch

LIVE = {"data": {"a": "1", "n": None}, "items": [{"k": 1}, {"k": 2}, {"k": 3}], "a/b": {"~": 0}}


@pytest.mark.parametrize(
    ("operation", "path", "value"),
    [
        ({"op": "replace", "path": "/data/missing", "value": "x"}, ("data", "missing"), "x"),
        ({"op": "add", "path": "/data/b", "value": [1]}, ("data", "b"), [1]),
        ({"op": "add", "path": "/items/-", "value": 9}, ("items", 3), 9),
        ({"op": "add", "path": "/items/0", "value": 9}, ("items", 0), 9),
        ({"op": "replace", "path": "/items/-1/k", "value": 9}, ("items", 2, "k"), 9),
        ({"op": "replace", "path": "/a~1b/~0", "value": 9}, ("a/b", "~"), 9),
        ({"op": "copy", "from": "/items/0", "path": "/data/c"}, ("data", "c"), {"k": 1}),
        ({"op": "move", "from": "/items/0", "path": "/data/c"}, ("data", "c"), {"k": 1}),
        ({"op": "remove", "path": "/items/0"}, ("items", 0), {"k": 2}),
        ({"op": "test", "path": "/data/zzz", "value": None}, ("data", "a"), "1"),
        ({"op": "test", "path": "/items/1", "value": {"k": 2}}, ("data", "a"), "1"),
    ],
)
def test_an_operation_has_its_effect_and_leaves_the_input_alone(operation, path, value) -> None:
    before = copy.deepcopy(LIVE)
    found = apply_json_patch(LIVE, [operation])
    assert before == LIVE
    for part in path:
        found = found[part]
    assert found == value


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/data/zzz"},
        {"op": "add", "path": "/no/such", "value": 1},
        {"op": "replace", "path": "/no/such", "value": 1},
        {"op": "replace", "path": "/items/3", "value": 1},
        {"op": "add", "path": "/items/5", "value": 1},
        {"op": "add", "path": "/items/x", "value": 1},
        {"op": "add", "path": "/data/a/b", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/n", "value": 0},
        {"op": "test", "path": "/items/0/k", "value": True},
        {"op": "move", "from": "/data/zzz", "path": "/data/b"},
        {"op": "invent", "path": "/data/a"},
        {"op": "add", "value": 1},
        {"op": "replace", "path": "", "value": 1},
    ],
)
def test_an_impossible_operation_is_refused_as_the_real_server_does(operation) -> None:
    with pytest.raises(PatchError) as refused:
        apply_json_patch(LIVE, [operation])
    assert (refused.value.status, refused.value.message) == (422, REJECTED)


def test_a_copy_and_its_origin_do_not_change_together() -> None:
    patched = apply_json_patch(
        {"a": {"x": 1}},
        [
            {"op": "add", "path": "/a/y", "value": 2},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "add", "path": "/b/z", "value": 3},
        ],
    )
    assert patched == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2, "z": 3}}


def test_the_value_of_an_operation_is_not_changed_by_a_later_one() -> None:
    value: dict[str, int] = {}
    apply_json_patch(
        {},
        [
            {"op": "add", "path": "/a", "value": value},
            {"op": "add", "path": "/a/x", "value": 1},
        ],
    )
    assert value == {}


@pytest.mark.parametrize("body", [{}, "x", [1], [{"op": "add"}, None]])
def test_what_is_no_list_of_operations_is_a_bad_request(body) -> None:
    with pytest.raises(PatchError) as refused:
        apply_json_patch({}, body)
    assert refused.value.status == 400


def test_too_many_operations_are_refused_as_too_large() -> None:
    with pytest.raises(PatchError) as refused:
        apply_json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)
    assert refused.value.status == 413
