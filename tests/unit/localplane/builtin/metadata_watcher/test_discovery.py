"""Reading which kinds are served."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.resources import PODS
from manta.localplane.builtin.metadata_watcher.partial_metadata import PartialObjectMetadata
from manta.localplane.builtin.metadata_watcher.watcher import read_kinds


def a_document(group: str, **versions: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"version": name, "resources": resources} for name, resources in versions.items()]
    return {"items": [{"metadata": {"name": group} if group else {}, "versions": listed}]}


def a_resource(plural: str, kind: str, *verbs: str) -> dict[str, Any]:
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "v1", "kind": kind},
        "scope": "Namespaced",
        "verbs": list(verbs or ("list", "watch", "delete")),
    }


def test_kinds_are_read_with_their_verbs() -> None:
    [[kind]] = read_kinds(a_document("", v1=[a_resource("pods", "Pod")])).values()
    assert kind.resource == PODS
    assert kind.is_collectable


def test_a_kind_without_watch_is_not_watchable() -> None:
    document = a_document("", v1=[a_resource("bindings", "Binding", "create")])
    [[kind]] = read_kinds(document).values()
    assert not kind.is_collectable


def test_of_two_versions_the_preferred_one_comes_first() -> None:
    ray = [a_resource("rayclusters", "RayCluster")]
    found = read_kinds(a_document("ray.io", v1=ray, v1alpha1=ray))
    [kinds] = found.values()
    assert [kind.resource.version for kind in kinds] == ["v1", "v1alpha1"]


def test_events_are_ignored_in_both_groups() -> None:
    events = [a_resource("events", "Event")]
    assert read_kinds(a_document("", v1=events), a_document("events.k8s.io", v1=events)) == {}


def test_a_trace_keeps_no_labels_and_no_annotations() -> None:
    body = b'{"metadata":{"name":"a","uid":"u","labels":{"x":"y"},"annotations":{"z":"long"}}}'
    partial = msgspec.json.decode(body, type=PartialObjectMetadata)
    assert (partial.metadata.name, partial.metadata.labels, partial.metadata.annotations) == (
        "a",
        {},
        {},
    )
