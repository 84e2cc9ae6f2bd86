"""Selections over stored records."""

from __future__ import annotations

import json

import pytest

from manta.localplane.apiserver.registry import Registry
from manta.localplane.apiserver.selectors import fields_reader, select
from manta.localplane.apiserver.status_errors import Refusal
from manta.localplane.store.objects import Record

REGISTRY = Registry()
PODS = REGISTRY.find("", "v1", "pods")
CONFIG_MAPS = REGISTRY.find("", "v1", "configmaps")
OLD_EVENTS = REGISTRY.find("", "v1", "events")
NEW_EVENTS = REGISTRY.find("events.k8s.io", "v1", "events")


def record(key, **body):
    return Record(key, json.dumps(body).encode(), 1)


def test_labels_fields_and_namespace_must_all_match():
    one = record(
        "ns/a", metadata={"labels": {"x": "1"}}, spec={"nodeName": "n"}, status={"phase": "Running"}
    )
    assert select(PODS, "ns", "x=1", "spec.nodeName=n,status.phase!=Failed").matches(one)
    assert not select(PODS, "other", "", "").matches(one)
    assert not select(PODS, "", "x=2", "").matches(one)
    assert not select(PODS, "", "", "spec.nodeName=m").matches(one)


def test_absent_fields_are_empty():
    one = record("ns/a", metadata={}, spec={"hostNetwork": True})
    assert select(PODS, "", "", "spec.nodeName=").matches(one)
    assert select(PODS, "", "", "spec.hostNetwork=true").matches(one)


def test_a_named_object_is_known_by_its_name():
    chosen = select(CONFIG_MAPS, "ns", "", "metadata.name=a")
    assert chosen.name == "a"
    assert not chosen.everything
    assert select(CONFIG_MAPS, "ns", "", "").everything


def test_both_kinds_of_events_read_the_same_record():
    one = record("ns/e", metadata={}, involvedObject={"name": "p"}, source={"component": "c"})
    assert select(OLD_EVENTS, "", "", "involvedObject.name=p,source=c").matches(one)
    assert select(NEW_EVENTS, "", "", "regarding.name=p").matches(one)
    assert not select(NEW_EVENTS, "", "", "regarding.name=q").matches(one)


@pytest.mark.parametrize(
    ("served", "fields"), [(PODS, "spec.foo=1"), (CONFIG_MAPS, "data.k=1"), (PODS, "what")]
)
def test_unknown_fields_are_refused(served, fields):
    with pytest.raises(Refusal) as refused:
        select(served, "", "", fields)
    assert refused.value.code == 400


def test_only_the_named_fields_are_read():
    read = fields_reader(("spec.a", "spec.b.c", "type"))
    raw = b'{"spec":{"a":3,"b":{"c":false},"z":[1,2]},"type":"t","other":{}}'
    assert read(raw) == {"spec.a": "3", "spec.b.c": "false", "type": "t"}
    assert read(b'{"spec":{"b":null}}') == {"spec.a": "", "spec.b.c": "", "type": ""}
