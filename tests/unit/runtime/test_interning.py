"""Sharing of equal strings."""

from __future__ import annotations

import msgspec

from manta.api.core import Pod
from manta.api.meta import View
from manta.runtime.interning import share

POD = {
    "metadata": {
        "name": "p",
        "namespace": "some-namespace",
        "labels": {"ray.io/cluster": "a-cluster-name"},
        "annotations": {"long": "x" * 1000},
        "ownerReferences": [{"kind": "RayCluster", "name": "a-cluster-name", "uid": "u"}],
    },
    "status": {"phase": "Running"},
}


def decode(document: object) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def test_equal_strings_of_two_objects_become_one() -> None:
    one, two = share(decode(POD)), share(decode(POD))
    assert one == two == decode(POD)
    assert one.metadata.namespace is two.metadata.namespace
    assert one.metadata.labels["ray.io/cluster"] is two.metadata.labels["ray.io/cluster"]
    assert one.metadata.owner_references[0].name is two.metadata.owner_references[0].name
    assert one.metadata.owner_references[0].name is one.metadata.labels["ray.io/cluster"]
    assert one.status.phase is two.status.phase


class WithRaw(View, frozen=True, kw_only=True):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def test_raw_json_does_not_keep_its_whole_message_alive() -> None:
    message = b'{"spec":{"a":1},"filler":"' + b"x" * 1000 + b'"}'
    one = share(msgspec.json.decode(message, type=WithRaw))
    assert bytes(one.spec) == b'{"a":1}'
    assert memoryview(one.spec).nbytes == 7
    assert isinstance(memoryview(one.spec).obj, bytes | msgspec.Raw)


def test_what_is_no_struct_passes_untouched() -> None:
    assert share({"a": "b"}) == {"a": "b"}


def test_what_did_not_change_of_an_object_is_held_once() -> None:
    labelled = POD | {"spec": {"nodeName": "n", "containers": [{"name": "ray"}, {"name": "side"}]}}
    before = share(decode(labelled))
    after = share(decode(labelled | {"status": {"phase": "Failed"}}), before)
    assert after == decode(labelled | {"status": {"phase": "Failed"}})
    assert after.spec is before.spec
    assert after.metadata is before.metadata
    assert after.status is not before.status


def test_of_a_list_that_changed_the_other_entries_are_held_once() -> None:
    entries = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]
    before = share(decode(POD | {"status": {"conditions": entries}}))
    entries[0] = {"type": "Ready", "status": "True"}
    after = share(decode(POD | {"status": {"conditions": entries}}), before)
    assert [one.status for one in after.status.conditions] == ["True", "True"]
    assert after.status.conditions[1].type is before.status.conditions[1].type


def test_raw_json_that_did_not_change_is_held_once() -> None:
    before = share(msgspec.json.decode(b'{"spec":{"a":1}}', type=WithRaw))
    after = share(msgspec.json.decode(b'{"spec":{"a":1}}', type=WithRaw), before)
    other = share(msgspec.json.decode(b'{"spec":{"a":2}}', type=WithRaw), before)
    assert after.spec is before.spec
    assert bytes(other.spec) == b'{"a":2}'
