"""Expected entries are those of the recorded answers of a real kube-apiserver 1.35."""

from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.apiserver.builtin_kinds.nodes import node_of_custom, node_of_kind
from manta.localplane.apiserver.builtin_kinds.reading import read_object
from manta.localplane.apiserver.patching.managed_fields import (
    Manager,
    read_entries,
    track_update,
)
from manta.localplane.apiserver.schema.compiled import compile_schema
from support.strategies import strategy_of

NOW = "2026-11-15T06:37:50Z"
LATER = "2026-11-15T06:40:00Z"
STATUS = frozenset({"status"})


def updater(name="python-requests", api_version="v1", subresource=""):
    return Manager(name, "Update", api_version, subresource)


def created(kind, obj, api_version="v1"):
    entries = track_update(
        read_object(api_version, kind, {}),
        strategy_of(api_version, kind).default(obj),
        manager=updater(api_version=api_version),
        now=NOW,
        node=node_of_kind(api_version, kind),
        reset=STATUS,
    )
    return entries[0]["fieldsV1"]


def updated(old, new, manager=None, now=LATER, reset=frozenset()):
    node = node_of_kind("v1", "ConfigMap")
    return track_update(old, new, manager=manager or updater(), now=now, node=node, reset=reset)


CONTAINER: dict[str, Any] = {
    ".": {},
    "f:image": {},
    "f:imagePullPolicy": {},
    "f:name": {},
    "f:resources": {},
    "f:terminationMessagePath": {},
    "f:terminationMessagePolicy": {},
}


def test_a_created_pod_is_owned_as_recorded() -> None:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80}]}
    pod = {"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [container]}}
    port: dict[str, Any] = {".": {}, "f:containerPort": {}, "f:protocol": {}}
    ports = {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': port}
    assert created("Pod", pod) == {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:containers": {'k:{"name":"c"}': {**CONTAINER, "f:ports": ports}},
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {},
        },
    }


def test_a_created_service_is_owned_as_recorded() -> None:
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    port: dict[str, Any] = {".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}
    assert created("Service", service) == {
        "f:spec": {
            "f:internalTrafficPolicy": {},
            "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': port},
            "f:selector": {},
            "f:sessionAffinity": {},
            "f:type": {},
        }
    }


@pytest.mark.parametrize(
    ("kind", "obj", "fields"),
    [
        ("ConfigMap", {"data": {"k": "1"}}, {"f:data": {".": {}, "f:k": {}}}),
        (
            "ConfigMap",
            {"metadata": {"finalizers": ["ex.com/f"]}},
            {"f:metadata": {"f:finalizers": {".": {}, 'v:"ex.com/f"': {}}}},
        ),
        (
            "Secret",
            {"stringData": {"a": "b"}},
            {"f:data": {".": {}, "f:a": {}}, "f:type": {}},
        ),
        (
            "Namespace",
            {"metadata": {"name": "ntest"}},
            {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}},
        ),
        (
            "Event",
            {"involvedObject": {"kind": "Pod"}, "count": 1},
            {"f:count": {}, "f:involvedObject": {}},
        ),
    ],
)
def test_other_kinds_are_owned_as_recorded(kind, obj, fields) -> None:
    assert created(kind, obj) == fields


def test_a_created_custom_resource_is_owned_as_recorded() -> None:
    item = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}
    spec = {
        "type": "object",
        "properties": {
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "items": {
                "type": "array",
                "items": item,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            "nul": {"type": "string", "nullable": True},
        },
    }
    schema = compile_schema(
        {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec}}
    )
    widget = {
        "apiVersion": "t.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "finalizers": ["a/b"]},
        "spec": {"free": {"x": {"y": 1}}, "items": [{"k": "1", "v": "dv"}], "nul": None},
    }
    (entry,) = track_update(
        {key: widget[key] for key in ("apiVersion", "kind") if key in widget},
        widget,
        manager=updater(api_version="t.example.com/v1"),
        now=NOW,
        node=node_of_custom(schema.root),
    )
    assert entry["fieldsV1"] == {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"a/b"': {}}},
        "f:spec": {
            ".": {},
            "f:free": {".": {}, "f:x": {".": {}, "f:y": {}}},
            "f:items": {".": {}, 'k:{"k":"1"}': {".": {}, "f:k": {}, "f:v": {}}},
            "f:nul": {},
        },
    }


OLD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "a",
        "managedFields": [
            {
                "manager": "m1",
                "operation": "Update",
                "apiVersion": "v1",
                "time": NOW,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
            }
        ],
    },
    "data": {"a": "1", "b": "1"},
}


def test_who_changes_a_field_owns_it() -> None:
    entries = updated(OLD, {**OLD, "data": {"a": "2", "b": "1", "c": "3"}}, updater("m2"))
    assert [(one["manager"], one["time"], one["fieldsV1"]) for one in entries] == [
        ("m1", NOW, {"f:data": {".": {}, "f:b": {}}}),
        ("m2", LATER, {"f:data": {"f:a": {}, "f:c": {}}}),
    ]


def test_what_is_removed_has_no_owner_and_gives_nobody_a_new_time() -> None:
    (entry,) = updated(OLD, {**OLD, "data": {"a": "1"}}, updater("m2"))
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
    assert entry["time"] == NOW
    assert updated(OLD, {key: OLD[key] for key in ("apiVersion", "kind", "metadata")}) == []


def test_an_update_that_changes_nothing_changes_no_entry() -> None:
    assert updated(OLD, {**OLD, "data": dict(OLD["data"])}) == OLD["metadata"]["managedFields"]


def test_what_the_endpoint_does_not_write_is_not_owned() -> None:
    changed = {**OLD, "status": {"phase": "x"}}
    assert updated(OLD, changed, reset=STATUS) == OLD["metadata"]["managedFields"]


def test_the_same_writer_through_another_subresource_is_another_entry() -> None:
    entries = updated(OLD, {**OLD, "status": {"phase": "x"}}, updater("m1", subresource="status"))
    assert [one.get("subresource") for one in entries] == [None, "status"]


def test_many_updaters_become_ancient_changes() -> None:
    obj: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {},
    }
    for number in range(12):
        new = {**obj, "data": {**obj["data"], f"k{number}": "x"}}
        time = f"2026-11-15T06:{number:02}:00Z"
        entries = updated(obj, new, updater(f"m{number}"), now=time)
        obj = {**new, "metadata": {"name": "a", "managedFields": entries}}
    managers = [entry.manager.name for entry in read_entries(obj)]
    assert len(managers) == 10
    assert "ancient-changes" in managers
    assert "m11" in managers
    assert "m0" not in managers


def test_malformed_entries_count_as_nothing() -> None:
    entries = [{}, None, {"manager": "x", "fieldsV1": 1}]
    assert read_entries({"metadata": {"managedFields": entries}}) == []
