"""The graph of owners and dependents."""

from __future__ import annotations

import msgspec

from manta.api.meta import ObjectMeta, Uid
from manta.api.resources import PODS
from manta.localplane.builtin.garbage_collector.graph import Graph


def meta(name: str, *owners: str) -> ObjectMeta:
    refs = [{"uid": owner, "name": owner} for owner in owners]
    return msgspec.convert({"name": name, "uid": name, "ownerReferences": refs}, ObjectMeta)


def test_dependents_follow_the_references() -> None:
    graph = Graph()
    graph.put(PODS, meta("child", "a", "b"))
    graph.put(PODS, meta("child", "b", "c"))
    assert [graph.dependent_uids(Uid(owner)) for owner in "abc"] == [(), ("child",), ("child",)]


def test_a_dropped_object_is_dropped_dependent_and_known_to_be_absent() -> None:
    graph = Graph()
    graph.put(PODS, meta("child", "a"))
    graph.drop(Uid("child"))
    assert graph.dependents(Uid("a")) == ()
    assert graph.is_absent(Uid("child"))
    assert not graph.is_absent(Uid("a"))


def test_an_object_that_shows_up_is_not_absent() -> None:
    graph = Graph()
    graph.note_absent(Uid("late"))
    graph.put(PODS, meta("late"))
    assert not graph.is_absent(Uid("late"))
