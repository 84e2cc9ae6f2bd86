"""Resource tables: revisions, snapshots of the past, limits of memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.store import objects
from manta.localplane.store.objects import Compacted, Record, ResourceTable, key_of


def record(key, revision, **labels):
    raw = b'{"metadata":{"labels":%s}}' % str(labels).replace("'", '"').encode()
    return Record(key, raw, revision)


def keys(records):
    return [one.key for one in records]


def test_records_are_sorted_by_key() -> None:
    resource = ResourceTable("pods")
    for revision, key in enumerate(("b/x", "a/z", "a-b/y", "a/b"), 1):
        resource.put(record(key, revision), 0)
    assert keys(resource.select()) == ["a-b/y", "a/b", "a/z", "b/x"]
    assert keys(resource.select("a")) == ["a/b", "a/z"]
    assert keys(resource.select("nope")) == []


def test_changes_have_the_previous_record() -> None:
    resource = ResourceTable("pods")
    first = resource.put(record("a", 1), 0)
    second = resource.put(record("a", 2), 0)
    third = resource.remove(record("a", 3), 0)
    assert [one.type for one in (first, second, third)] == ["ADDED", "MODIFIED", "DELETED"]
    assert first.previous is None
    assert second.previous is first.record
    assert third.previous is second.record
    assert [one.revision for one in resource.changes_after(1)] == [2, 3]
    assert len(resource) == 0


def test_an_earlier_revision_is_rebuilt_from_the_history() -> None:
    resource = ResourceTable("pods")
    resource.put(record("a", 1), 0)
    resource.put(record("b", 2), 0)
    resource.put(record("a", 3), 0)
    resource.remove(record("b", 4), 0)
    resource.put(record("c", 5), 0)
    assert [(one.key, one.revision) for one in resource.select_at(2)] == [("a", 1), ("b", 2)]
    assert [(one.key, one.revision) for one in resource.select_at(4)] == [("a", 3)]
    assert [(one.key, one.revision) for one in resource.select_at(0)] == []
    assert keys(resource.select_at(5)) == ["a", "c"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30), st.data())
def test_every_revision_can_be_seen_again(writes, data) -> None:
    resource, states, state = ResourceTable("x"), [{}], {}
    for revision, (key, removes) in enumerate(writes, 1):
        if removes and key in state:
            resource.remove(record(key, revision), 0)
            state = {name: value for name, value in state.items() if name != key}
        else:
            resource.put(record(key, revision), 0)
            state = state | {key: revision}
        states.append(state)
    asked = data.draw(st.integers(0, len(states) - 1))
    seen = {one.key: one.revision for one in resource.select_at(asked)}
    assert seen == states[asked]


def test_compacted_revisions_raise() -> None:
    resource = ResourceTable("pods")
    for revision in range(1, 6):
        resource.put(record("a", revision), 0)
    resource.compact(3)
    with pytest.raises(Compacted, match=r"too old resource version: 2 \(3\)"):
        resource.replay(2)
    with pytest.raises(Compacted):
        resource.select_at(2)
    assert [one.revision for one in resource.replay(3)] == [4, 5]


def test_old_changes_are_dropped_by_number_size_and_age(monkeypatch) -> None:
    monkeypatch.setattr(objects, "KEEP_CHANGES", 3)
    resource = ResourceTable("pods")
    for revision in range(1, 6):
        resource.put(record("a", revision), 0)
    assert resource.compacted == 2
    monkeypatch.setattr(objects, "KEEP_BYTES", 10)
    resource.put(record("a", 6), 0)
    assert resource.compacted == 5
    monkeypatch.setattr(objects, "KEEP_BYTES", 10**9)
    resource.put(record("a", 7), objects.KEEP_SECONDS + 1)
    assert resource.compacted == 6


def test_encoded_lines_are_kept_for_the_latest_changes_only(monkeypatch) -> None:
    monkeypatch.setattr(objects, "KEEP_LINES", 2)
    resource = ResourceTable("pods")
    changes = [resource.put(record("a", revision), 0) for revision in (1, 2, 3)]
    for change in changes:
        change.encoded = {}
    resource.put(record("a", 4), 0)
    assert [one.encoded is None for one in changes] == [False, False, True]


def test_labels_are_read_from_the_json_once() -> None:
    one = record("a/b", 1, app="x")
    assert one.labels == {"app": "x"}
    assert one.labels is one.labels
    assert Record("a", b'{"metadata":{}}', 1).labels == {}


def test_keys_carry_namespace_and_name() -> None:
    assert key_of("ns", "n") == "ns/n"
    assert key_of("", "n") == "n"
    one = Record("ns/n", b"{}", 1)
    assert (one.namespace, one.name) == ("ns", "n")
    assert Record("n", b"{}", 1).namespace == ""
