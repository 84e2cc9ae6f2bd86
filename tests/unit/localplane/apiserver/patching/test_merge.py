from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.merge import apply_merge_patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b"}, {"z": None}, {"a": "b"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "x"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
    ],
)
def test_a_merge_patch_gives_the_result_of_the_rfc_and_of_the_real_server(
    target, patch, result
) -> None:
    assert apply_merge_patch(target, patch) == result


def test_the_input_is_untouched_and_unchanged_parts_are_shared() -> None:
    live: dict[str, Any] = {"spec": {"a": [1]}, "metadata": {"labels": {"x": "1"}}}
    patched = apply_merge_patch(live, {"metadata": {"labels": {"x": "2"}}})
    assert live["metadata"]["labels"] == {"x": "1"}
    assert patched["spec"] is live["spec"]


def test_a_patch_that_is_no_object_is_a_bad_request() -> None:
    with pytest.raises(PatchError) as refused:
        apply_merge_patch({}, ["a"])
    assert refused.value.status == 400
