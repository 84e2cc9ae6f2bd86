from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.patching.field_sets import difference, intersection, paths, union

A: dict[str, Any] = {"f:data": {"f:a": {}, "f:b": {}}}
B: dict[str, Any] = {"f:data": {".": {}, "f:b": {}, "f:c": {}}}


def test_a_union_has_the_members_of_both() -> None:
    assert union(A, B) == {"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}}
    assert union({}, A) is A
    assert union({"f:x": {}}, {"f:x": {"f:y": {}}}) == {"f:x": {".": {}, "f:y": {}}}


def test_a_difference_leaves_what_the_other_has_not() -> None:
    assert difference(A, B) == {"f:data": {"f:a": {}}}
    assert difference(B, A) == {"f:data": {".": {}, "f:c": {}}}
    assert difference(A, A) == {}
    assert difference(A, {"f:z": {}}) is A
    assert difference({"f:x": {"f:y": {}}}, {"f:x": {}}) == {"f:x": {"f:y": {}}}


def test_an_intersection_keeps_what_both_have() -> None:
    assert intersection(A, B) == {"f:data": {"f:b": {}}}
    assert intersection({"f:x": {}}, {"f:x": {"f:y": {}}}) == {}


def test_paths_are_printed_as_conflicts_name_them() -> None:
    tree = {
        "f:spec": {
            "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {}},
            "f:set": {'v:"x"': {}},
        }
    }
    assert list(paths(tree)) == [
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].image',
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.set[="x"]',
    ]
