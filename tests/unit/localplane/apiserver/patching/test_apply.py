"""The story of recorded-answers-1, SSA: each step as a real kube-apiserver 1.35 answered it."""

from __future__ import annotations

import pytest

from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.localplane.apiserver.builtin_kinds.nodes import node_of_kind
from manta.localplane.apiserver.builtin_kinds.reading import read_object
from manta.localplane.apiserver.patching.apply import conflict_message, server_side_apply
from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.managed_fields import Manager, track_update

NOW = "2026-11-15T06:37:50Z"
LATER = "2026-11-15T06:40:00Z"


def apply(live, sent, manager="m1", *, force=False, now=NOW, kind="ConfigMap", api_version="v1"):
    return server_side_apply(
        live,
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": "ssa"}, **sent},
        manager=Manager(manager, "Apply", api_version),
        force=force,
        node=node_of_kind(api_version, kind),
        now=now,
        empty=read_object(api_version, kind, {}),
        reset=frozenset({"status"}),
    )


def owners(obj):
    return {one["manager"]: one["fieldsV1"] for one in obj["metadata"]["managedFields"]}


@pytest.fixture
def live():
    return apply(None, {"data": {"a": "1", "b": "1"}}).object


def test_a_first_apply_creates_and_owns(live) -> None:
    assert live["data"] == {"a": "1", "b": "1"}
    assert live["metadata"]["managedFields"] == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
        }
    ]


def test_the_same_apply_again_changes_nothing_at_all(live) -> None:
    assert apply(live, {"data": {"a": "1", "b": "1"}}, now=LATER).object is live


def test_a_field_of_somebody_else_is_a_conflict(live) -> None:
    refused = apply(live, {"data": {"a": "2", "c": "3"}}, "m2")
    assert refused.object is live
    assert conflict_message(refused.conflicts) == (
        'Apply failed with 1 conflict: conflict with "m1": .data.a'
    )
    assert refused.conflicts[0].cause.as_json() == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "m1"',
        "field": ".data.a",
    }


def test_force_takes_the_field_over(live) -> None:
    forced = apply(live, {"data": {"a": "2", "c": "3"}}, "m2", force=True).object
    assert forced["data"] == {"a": "2", "b": "1", "c": "3"}
    assert owners(forced) == {
        "m1": {"f:data": {"f:b": {}}},
        "m2": {"f:data": {"f:a": {}, "f:c": {}}},
    }
    again = apply(forced, {"data": {"b": "1"}}, "m1", now=LATER).object
    assert again is forced
    dropped = apply(forced, {"data": {"a": "2"}}, "m2", force=True, now=LATER).object
    assert dropped["data"] == {"a": "2", "b": "1"}
    assert owners(dropped)["m2"] == {"f:data": {"f:a": {}}}


def test_the_same_value_is_shared_without_a_conflict(live) -> None:
    shared = apply(live, {"data": {"a": "1"}}, "m2").object
    assert owners(shared)["m2"] == {"f:data": {"f:a": {}}}
    assert owners(shared)["m1"] == {"f:data": {"f:a": {}, "f:b": {}}}
    left = apply(shared, {}, "m1").object
    assert left["data"] == {"a": "1"}


def test_who_drops_everything_leaves_no_trace(live) -> None:
    empty = apply(live, {}).object
    assert "data" not in empty
    assert empty["metadata"]["managedFields"] == []


def test_what_was_never_applied_is_not_removed(live) -> None:
    node = node_of_kind("v1", "ConfigMap")
    new = {**live, "data": {**live["data"], "x": "9"}}
    entries = track_update(live, new, manager=Manager("u", "Update", "v1"), now=NOW, node=node)
    new = {**new, "metadata": {**new["metadata"], "managedFields": entries}}
    assert apply(new, {"data": {"a": "1"}}).object["data"] == {"a": "1", "x": "9"}


def test_an_updater_is_named_with_its_version_and_subresource(live) -> None:
    node = node_of_kind("v1", "ConfigMap")
    new = {**live, "data": {"a": "5", "b": "5"}}
    updater = Manager("u", "Update", "v1", "scale")
    entries = track_update(live, new, manager=updater, now=NOW, node=node)
    new = {**new, "metadata": {**new["metadata"], "managedFields": entries}}
    refused = apply(new, {"data": {"a": "1", "b": "1"}})
    assert conflict_message(refused.conflicts) == (
        'Apply failed with 2 conflicts: conflicts with "u" with subresource "scale" using v1:\n'
        "- .data.a\n- .data.b"
    )


def test_an_untracked_object_is_owned_by_before_first_apply() -> None:
    live = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ssa"},
        "data": {"a": "1"},
    }
    refused = apply(live, {"data": {"a": "2"}})
    assert conflict_message(refused.conflicts).startswith(
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    )


def test_managed_fields_cannot_be_applied() -> None:
    with pytest.raises(PatchError) as refused:
        apply(None, {"metadata": {"name": "ssa", "managedFields": [{"manager": "x"}]}})
    assert (refused.value.status, refused.value.message) == (
        400,
        "metadata.managedFields must be nil",
    )


def client_side_applied(data):
    annotation = '{"data":{"a":"1"},"metadata":{"name":"ssa"}}'
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ssa", "annotations": {ANNOTATION_LAST_APPLIED: annotation}},
        "data": data,
    }
    node = node_of_kind("v1", "ConfigMap")
    csa = Manager("kubectl-client-side-apply", "Update", "v1")
    entries = track_update({}, obj, manager=csa, now=NOW, node=node)
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def test_kubectl_takes_over_what_it_applied_on_the_client_side() -> None:
    result = apply(client_side_applied({"a": "1"}), {"data": {"a": "2"}}, "kubectl")
    assert result.conflicts == ()
    assert result.object["data"] == {"a": "2"}
    annotation = result.object["metadata"]["annotations"][ANNOTATION_LAST_APPLIED]
    assert '"data":{"a":"2"}' in annotation
    assert apply(client_side_applied({"a": "1"}), {"data": {"a": "2"}}, "other").conflicts
    assert apply(client_side_applied({"a": "9"}), {"data": {"a": "2"}}, "kubectl").conflicts


# ── lists ────────────────────────────────────────────────────────────────────────────────
def deployment(*containers):
    return {"spec": {"template": {"spec": {"containers": list(containers)}}}}


def containers(obj):
    return obj["spec"]["template"]["spec"]["containers"]


def apply_deployment(live, sent, manager, **more):
    return apply(live, sent, manager, kind="Deployment", api_version="apps/v1", **more)


def test_elements_of_a_list_map_are_shared_between_managers() -> None:
    a, b = {"name": "a", "image": "i:1"}, {"name": "b", "image": "j:1"}
    one = apply_deployment(None, deployment(a), "m1").object
    two = apply_deployment(one, deployment(b), "m2").object
    assert containers(two) == [a, b]
    three = apply_deployment(two, deployment({"name": "a", "image": "i:2"}), "m1").object
    assert containers(three) == [{"name": "a", "image": "i:2"}, b]
    gone = apply_deployment(three, {}, "m1").object
    assert containers(gone) == [b]


def test_the_order_of_the_applied_list_wins_and_others_keep_their_place() -> None:
    def named(*names):
        return [{"name": name, "image": name} for name in names]

    live = apply_deployment(None, deployment(*named("a", "b", "c", "d")), "m1").object
    result = apply_deployment(live, deployment(*named("d", "x", "b")), "m2").object
    assert [one["name"] for one in containers(result)] == ["a", "c", "d", "x", "b"]


def test_a_default_key_identifies_a_port() -> None:
    def service(**port):
        return {"spec": {"ports": [{"port": 80, **port}]}}

    live = apply(None, service(protocol="TCP", targetPort=1), kind="Service").object
    result = apply(live, service(targetPort=2), kind="Service").object
    assert result["spec"]["ports"] == [{"port": 80, "targetPort": 2}]


def test_values_of_a_set_are_owned_one_by_one() -> None:
    def finalized(*names):
        return {"metadata": {"name": "ssa", "finalizers": list(names)}}

    one = apply(None, finalized("a/x"), "m1").object
    two = apply(one, finalized("b/x"), "m2").object
    assert two["metadata"]["finalizers"] == ["a/x", "b/x"]
    three = apply(two, finalized(), "m1").object
    assert three["metadata"]["finalizers"] == ["b/x"]


def test_an_atomic_map_has_one_owner() -> None:
    def service(**selector):
        return {"spec": {"selector": selector}}

    live = apply(None, service(a="1"), "m1", kind="Service").object
    refused = apply(live, service(b="2"), "m2", kind="Service")
    assert [one.path for one in refused.conflicts] == [".spec.selector"]
    forced = apply(live, service(b="2"), "m2", kind="Service", force=True).object
    assert forced["spec"]["selector"] == {"b": "2"}
