"""Laws of patches, for any JSON: nothing is changed in place, and what is asked for happens."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.apiserver.builtin_kinds.nodes import node_of_kind
from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.json_patch import apply_json_patch
from manta.localplane.apiserver.patching.merge import apply_merge_patch
from manta.localplane.apiserver.patching.strategic import apply_strategic_patch

KEYS = st.sampled_from(["a", "b", "c", "a/b", "~", "0", "-"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "y"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
DEPLOYMENT = node_of_kind("apps/v1", "Deployment")


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_applied_twice_is_applied_once(obj, patch) -> None:
    before = copy.deepcopy((obj, patch))
    once = apply_merge_patch(obj, patch)
    assert apply_merge_patch(once, patch) == once
    assert (obj, patch) == before


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_has_its_way(obj, patch) -> None:
    def holds(found: Any, wanted: Any) -> bool:
        if isinstance(wanted, dict):
            return isinstance(found, dict) and all(
                key not in found if value is None else holds(found[key], value)
                for key, value in wanted.items()
            )
        return True

    assert holds(apply_merge_patch(obj, patch), patch)


def pointer(path: list[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def steps(old: Any, new: Any, path: list[str]) -> list[dict[str, Any]]:
    """A JSON patch from one object to another, member by member."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return (
            []
            if repr(old) == repr(new)
            else [{"op": "replace", "path": pointer(path), "value": new}]
        )
    found = [{"op": "remove", "path": pointer([*path, key])} for key in old if key not in new]
    for key, value in new.items():
        if key in old:
            found += steps(old[key], value, [*path, key])
        else:
            found.append({"op": "add", "path": pointer([*path, key]), "value": value})
    return found


@given(OBJECTS, OBJECTS)
def test_a_json_patch_leads_from_any_object_to_any_other(old, new) -> None:
    before = copy.deepcopy((old, new))
    assert apply_json_patch(old, steps(old, new, [])) == new
    assert (old, new) == before


OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
        optional={
            "path": st.lists(KEYS, max_size=3).map(pointer),
            "from": st.lists(KEYS, max_size=3).map(pointer),
            "value": VALUES,
        },
    ),
    max_size=4,
)


@given(OBJECTS, OPERATIONS)
def test_any_json_patch_works_or_is_refused_and_changes_nothing_in_place(obj, operations) -> None:
    before = copy.deepcopy((obj, operations))
    try:
        result = apply_json_patch(obj, operations)
    except PatchError:
        result = {}
    assert isinstance(result, dict)
    assert (obj, operations) == before


CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abcd")},
        optional={"image": st.sampled_from(["i:1", "i:2"]), "$patch": st.just("delete")},
    ),
    max_size=4,
    unique_by=lambda container: container["name"],
)


def deployment(containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def plain(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in one.items() if k != "$patch"} for one in containers]


@given(CONTAINERS.map(plain), CONTAINERS)
def test_a_strategic_patch_merges_lists_as_if_they_were_maps(current, patch) -> None:
    live, change = deployment(current), deployment(patch)
    before = copy.deepcopy((live, change))
    assert DEPLOYMENT is not None
    result = apply_strategic_patch(live, change, DEPLOYMENT)["spec"]["template"]["spec"][
        "containers"
    ]
    wanted = {one["name"]: one for one in current}
    for one in patch:
        if "$patch" in one:
            wanted.pop(one["name"], None)
        else:
            wanted[one["name"]] = {**wanted.get(one["name"], {}), **one}
    assert {one["name"]: one for one in result} == wanted
    assert len(result) == len(wanted)
    assert (live, change) == before
