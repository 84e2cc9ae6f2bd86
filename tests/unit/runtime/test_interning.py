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
