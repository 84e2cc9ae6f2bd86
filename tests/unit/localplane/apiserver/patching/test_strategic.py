from __future__ import annotations

import copy

import pytest

from manta.localplane.apiserver.builtin_kinds.nodes import node_of_kind
from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.strategic import apply_strategic_patch

POD = node_of_kind("v1", "Pod")
DEPLOYMENT = node_of_kind("apps/v1", "Deployment")
SERVICE_ACCOUNT = node_of_kind("v1", "ServiceAccount")


def pod(*containers, **spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


A = {"name": "a", "image": "i:1", "env": [{"name": "X", "value": "1"}]}
B = {"name": "b", "image": "j:1"}
C = {"name": "c", "image": "k:1"}


def patched(obj, patch, node=POD):
    before = copy.deepcopy(obj)
    result = apply_strategic_patch(obj, patch, node)
    assert obj == before
    return result


def names(obj):
    return [container["name"] for container in obj["spec"]["containers"]]


def test_containers_merge_by_name() -> None:
    result = patched(pod(A, B), {"spec": {"containers": [{"name": "b", "image": "j:2"}]}})
    assert result["spec"]["containers"] == [A, {"name": "b", "image": "j:2"}]
    assert result["spec"]["containers"][0] is A


def test_a_new_element_comes_first_and_without_nulls() -> None:
    result = patched(pod(A), {"spec": {"containers": [{"name": "z", "image": "i", "args": None}]}})
    assert result["spec"]["containers"] == [{"name": "z", "image": "i"}, A]


def test_elements_take_the_order_of_the_patch() -> None:
    result = patched(pod(A, B, C), {"spec": {"containers": [{"name": "c"}, {"name": "a"}]}})
    assert names(result) == ["b", "c", "a"]


def test_a_directive_about_nothing_does_nothing() -> None:
    patch = {"metadata": {"labels": {"$patch": "replace", "z": "1"}}}
    assert patched({"metadata": {"name": "p"}}, patch) == {"metadata": {"name": "p"}}


def test_nested_keyed_lists_merge_too() -> None:
    env = [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]
    result = patched(pod(A), {"spec": {"containers": [{"name": "a", "env": env}]}})
    assert result["spec"]["containers"][0]["env"] == env


def test_an_element_is_deleted_by_its_key() -> None:
    patch = {"spec": {"containers": [{"$patch": "delete", "name": "a"}]}}
    assert names(patched(pod(A, B), patch)) == ["b"]


def test_a_list_is_replaced_as_a_whole_when_asked() -> None:
    patch = {"spec": {"containers": [{"$patch": "replace"}, C]}}
    assert names(patched(pod(A, B), patch)) == ["c"]


def test_an_object_is_replaced_or_emptied_when_asked() -> None:
    obj = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    replace = {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}
    assert patched(obj, replace) == {"metadata": {"labels": {"c": "3"}}}
    assert patched(obj, {"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}


def test_the_order_of_set_image_is_kept() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
            "containers": [{"name": "b", "image": "j:2"}],
        }
    }
    assert names(patched(pod(A, B), patch)) == ["a", "b"]


def test_what_only_the_server_knows_keeps_its_place() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "a", "image": "i:2"}],
        }
    }
    result = patched(pod(A, B, C), patch)
    assert names(result) == ["b", "c", "a"]
    assert result["spec"]["containers"][2]["image"] == "i:2"


def test_an_order_alone_reorders() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert names(patched(pod(A, B), patch)) == ["b", "a"]


def test_a_patch_against_its_own_order_is_malformed() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
            "containers": [B, A],
        }
    }
    with pytest.raises(PatchError) as refused:
        patched(pod(A, B), patch)
    assert refused.value.status == 400


def test_values_of_a_list_are_added_once_and_deleted() -> None:
    obj = {"metadata": {"finalizers": ["a/x", "b/x"]}}
    added = patched(obj, {"metadata": {"finalizers": ["b/x", "c/x"]}})
    assert added["metadata"]["finalizers"] == ["a/x", "b/x", "c/x"]
    gone = patched(obj, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}})
    assert gone["metadata"]["finalizers"] == ["b/x"]


def test_atomic_lists_are_replaced() -> None:
    obj = pod({**A, "args": ["1", "2"]})
    result = patched(obj, {"spec": {"containers": [{"name": "a", "args": ["3"]}]}})
    assert result["spec"]["containers"][0]["args"] == ["3"]


def test_retained_keys_clear_the_others() -> None:
    obj = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert patched(obj, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}
    bad = {"spec": {"strategy": {"$retainKeys": ["type"], "other": 1}}}
    with pytest.raises(PatchError):
        patched(obj, bad, DEPLOYMENT)


def test_null_deletes_and_an_unknown_directive_is_refused() -> None:
    assert patched({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": None}}) == {
        "metadata": {}
    }
    with pytest.raises(PatchError):
        patched({}, {"$patch": "frob"})


def test_an_element_without_its_key_is_refused() -> None:
    with pytest.raises(PatchError) as refused:
        patched(pod(A), {"spec": {"containers": [{"image": "x"}]}})
    assert refused.value.status == 500


def test_references_merge_by_their_name_and_owners_by_uid() -> None:
    obj = {"secrets": [{"name": "a"}], "metadata": {"ownerReferences": [{"uid": "1", "name": "x"}]}}
    patch = {
        "secrets": [{"name": "b"}],
        "metadata": {"ownerReferences": [{"uid": "2", "name": "y"}]},
    }
    result = patched(obj, patch, SERVICE_ACCOUNT)
    assert result["secrets"] == [{"name": "b"}, {"name": "a"}]
    assert [owner["uid"] for owner in result["metadata"]["ownerReferences"]] == ["2", "1"]
