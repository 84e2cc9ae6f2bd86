"""Selections over stored records."""

from __future__ import annotations

import json

import pytest

from manta.localplane.apiserver.selectors import fields_reader, select
from manta.localplane.apiserver.status_errors import StatusError
from manta.localplane.store.objects import Record
from support.served import built_in

PODS = built_in("", "v1", "pods")
CONFIG_MAPS = built_in("", "v1", "configmaps")
OLD_EVENTS = built_in("", "v1", "events")
NEW_EVENTS = built_in("events.k8s.io", "v1", "events")


def record(key, **body):
    return Record(key, json.dumps(body).encode(), 1)


def test_labels_fields_and_namespace_must_all_match() -> None:
    one = record(
        "ns/a", metadata={"labels": {"x": "1"}}, spec={"nodeName": "n"}, status={"phase": "Running"}
    )
    assert select(PODS, "ns", "x=1", "spec.nodeName=n,status.phase!=Failed").matches(one)
    assert not select(PODS, "other", "", "").matches(one)
    assert not select(PODS, "", "x=2", "").matches(one)
    assert not select(PODS, "", "", "spec.nodeName=m").matches(one)


def test_absent_fields_are_empty() -> None:
    one = record("ns/a", metadata={}, spec={"hostNetwork": True})
    assert select(PODS, "", "", "spec.nodeName=").matches(one)
    assert select(PODS, "", "", "spec.hostNetwork=true").matches(one)


def test_a_named_object_is_known_by_its_name() -> None:
    chosen = select(CONFIG_MAPS, "ns", "", "metadata.name=a")
    assert chosen.name == "a"
    assert not chosen.everything
    assert select(CONFIG_MAPS, "ns", "", "").everything


def test_both_kinds_of_events_read_the_same_record() -> None:
    one = record("ns/e", metadata={}, involvedObject={"name": "p"}, source={"component": "c"})
    assert select(OLD_EVENTS, "", "", "involvedObject.name=p,source=c").matches(one)
    assert select(NEW_EVENTS, "", "", "regarding.name=p").matches(one)
    assert not select(NEW_EVENTS, "", "", "regarding.name=q").matches(one)


@pytest.mark.parametrize(
    ("resource", "fields"), [(PODS, "spec.foo=1"), (CONFIG_MAPS, "data.k=1"), (PODS, "what")]
)
def test_unknown_fields_are_refused(resource, fields) -> None:
    with pytest.raises(StatusError) as refused:
        select(resource, "", "", fields)
    assert refused.value.code == 400


def test_only_the_named_fields_are_read() -> None:
    read = fields_reader(("spec.a", "spec.b.c", "type"))
    raw = b'{"spec":{"a":3,"b":{"c":false},"z":[1,2]},"type":"t","other":{}}'
    assert read(raw) == {"spec.a": "3", "spec.b.c": "false", "type": "t"}
    assert read(b'{"spec":{"b":null}}') == {"spec.a": "", "spec.b.c": "", "type": ""}
