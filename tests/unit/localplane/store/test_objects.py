"""Shelves: revisions, snapshots of the past, limits of memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.store import objects
from manta.localplane.store.objects import Compacted, Record, Shelf, key_of


def record(key, revision, **labels):
    raw = b'{"metadata":{"labels":%s}}' % str(labels).replace("'", '"').encode()
    return Record(key, raw, revision)


def keys(records):
    return [one.key for one in records]


def test_records_lie_in_the_order_of_their_keys():
    shelf = Shelf("pods")
    for revision, key in enumerate(("b/x", "a/z", "a-b/y", "a/b"), 1):
        shelf.put(record(key, revision), 0)
    assert keys(shelf.select()) == ["a-b/y", "a/b", "a/z", "b/x"]
    assert keys(shelf.select("a")) == ["a/b", "a/z"]
    assert keys(shelf.select("nope")) == []


def test_changes_tell_what_was_before():
    shelf = Shelf("pods")
    first = shelf.put(record("a", 1), 0)
    second = shelf.put(record("a", 2), 0)
    third = shelf.remove(record("a", 3), 0)
    assert [one.type for one in (first, second, third)] == ["ADDED", "MODIFIED", "DELETED"]
    assert first.previous is None
    assert second.previous is first.record
    assert third.previous is second.record
    assert [one.revision for one in shelf.changes_after(1)] == [2, 3]
    assert len(shelf) == 0


def test_the_past_is_what_changes_undone_leave():
    shelf = Shelf("pods")
    shelf.put(record("a", 1), 0)
    shelf.put(record("b", 2), 0)
    shelf.put(record("a", 3), 0)
    shelf.remove(record("b", 4), 0)
    shelf.put(record("c", 5), 0)
    assert [(one.key, one.revision) for one in shelf.select_at(2)] == [("a", 1), ("b", 2)]
    assert [(one.key, one.revision) for one in shelf.select_at(4)] == [("a", 3)]
    assert [(one.key, one.revision) for one in shelf.select_at(0)] == []
    assert keys(shelf.select_at(5)) == ["a", "c"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30), st.data())
def test_every_revision_can_be_seen_again(writes, data):
    shelf, states, state = Shelf("x"), [{}], {}
    for revision, (key, removes) in enumerate(writes, 1):
        if removes and key in state:
            shelf.remove(record(key, revision), 0)
            state = {name: value for name, value in state.items() if name != key}
        else:
            shelf.put(record(key, revision), 0)
            state = state | {key: revision}
        states.append(state)
    asked = data.draw(st.integers(0, len(states) - 1))
    seen = {one.key: one.revision for one in shelf.select_at(asked)}
    assert seen == states[asked]


def test_what_is_forgotten_is_said_so():
    shelf = Shelf("pods")
    for revision in range(1, 6):
        shelf.put(record("a", revision), 0)
    shelf.forget(3)
    with pytest.raises(Compacted, match=r"too old resource version: 2 \(3\)"):
        shelf.replay(2)
    with pytest.raises(Compacted):
        shelf.select_at(2)
    assert [one.revision for one in shelf.replay(3)] == [4, 5]


def test_old_changes_go_by_number_size_and_age(monkeypatch):
    monkeypatch.setattr(objects, "KEEP_CHANGES", 3)
    shelf = Shelf("pods")
    for revision in range(1, 6):
        shelf.put(record("a", revision), 0)
    assert shelf.compacted == 2
    monkeypatch.setattr(objects, "KEEP_BYTES", 10)
    shelf.put(record("a", 6), 0)
    assert shelf.compacted == 5
    monkeypatch.setattr(objects, "KEEP_BYTES", 10**9)
    shelf.put(record("a", 7), objects.KEEP_SECONDS + 1)
    assert shelf.compacted == 6


def test_finished_lines_are_kept_for_the_latest_only(monkeypatch):
    monkeypatch.setattr(objects, "KEEP_LINES", 2)
    shelf = Shelf("pods")
    changes = [shelf.put(record("a", revision), 0) for revision in (1, 2, 3)]
    for change in changes:
        change.encoded = {}
    shelf.put(record("a", 4), 0)
    assert [one.encoded is None for one in changes] == [False, False, True]


def test_labels_are_read_from_the_json_once():
    one = record("a/b", 1, app="x")
    assert one.labels == {"app": "x"}
    assert one.labels is one.labels
    assert Record("a", b'{"metadata":{}}', 1).labels == {}


def test_keys_carry_namespace_and_name():
    assert key_of("ns", "n") == "ns/n"
    assert key_of("", "n") == "n"
    one = Record("ns/n", b"{}", 1)
    assert (one.namespace, one.name) == ("ns", "n")
    assert Record("n", b"{}", 1).namespace == ""
