"""Packing: a large shelf takes little room, and nobody who reads it can tell."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.store import objects
from manta.localplane.store.objects import Record, Shelf
from manta.localplane.store.packing import Packer, is_packed
from manta.localplane.store.store import Store


def an_object(number: int, size: int = 40) -> bytes:
    data = {f"setting-{index}": f"value-{index}" for index in range(size)}
    labels = {"number": str(number), "app": "packed"}
    return json.dumps({"metadata": {"name": f"o{number}", "labels": labels}, "data": data}).encode()


@given(pattern=st.binary(min_size=1, max_size=70_000), text=st.binary(max_size=70_000))
def test_what_is_packed_against_any_pattern_comes_back_whole(pattern: bytes, text: bytes) -> None:
    packer = Packer(pattern)
    packed = packer.pack(b"{" + text)
    assert is_packed(packed)
    assert packer.unpack(packed) == b"{" + text


def test_objects_of_one_kind_take_a_tenth_of_their_room_when_packed() -> None:
    packer = Packer(an_object(0))
    raw = an_object(1)
    assert len(packer.pack(raw)) < len(raw) / 10


def test_a_record_reads_the_same_before_and_after_it_is_packed() -> None:
    raw = an_object(7)
    plain, packed = Record("ns/o7", raw, 1), Record("ns/o7", raw, 1)
    packed.pack(Packer(an_object(0)))
    assert packed.raw == plain.raw
    assert packed.labels == plain.labels
    assert packed.decode() == plain.decode()
    packed.pack(Packer(an_object(3)))
    assert packed.raw == raw


def held(shelf: Shelf) -> int:
    return sum(sys.getsizeof(record._text) for record in shelf)


def filled(count: int) -> Shelf:
    shelf = Shelf("things")
    for number in range(count):
        shelf.put(Record(f"ns/o{number:04}", an_object(number), number + 1), 0.0)
    return shelf


def test_a_small_shelf_packs_nothing() -> None:
    assert not any(is_packed(record._text) for record in filled(50))


def test_a_large_shelf_packs_what_was_not_written_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "FRESH_BYTES", 20 * len(an_object(1)))
    shelf = filled(400)
    assert held(shelf) < sum(len(record.raw) for record in shelf) / 3
    assert not is_packed(shelf.records["ns/o0399"]._text)
    assert [record.raw for record in shelf.select()] == [an_object(n) for n in range(400)]


def test_loaded_objects_are_packed_little_by_little_as_others_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "FRESH_BYTES", 0)
    shelf = Shelf("things")
    for number in range(10):
        shelf.load(Record(f"ns/o{number:04}", an_object(number), number + 1))
    assert not any(is_packed(record._text) for record in shelf)
    for number in range(10, 20):
        shelf.put(Record(f"ns/o{number:04}", an_object(number), number + 1), 0.0)
    assert all(is_packed(shelf.records[f"ns/o{number:04}"]._text) for number in range(10))


def test_history_and_earlier_states_survive_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "FRESH_BYTES", 0)
    shelf = filled(30)
    for number in range(30):
        shelf.put(Record(f"ns/o{number:04}", an_object(number + 100), number + 31), 0.0)
    then = shelf.select_at(30)
    assert [record.raw for record in then] == [an_object(number) for number in range(30)]
    replayed = shelf.replay(30)
    assert [change.record.raw for change in replayed] == [an_object(n + 100) for n in range(30)]
    assert [change.previous.raw for change in replayed if change.previous] == [
        an_object(number) for number in range(30)
    ]


def test_the_history_limit_counts_the_json_whether_packed_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "FRESH_BYTES", 0)
    monkeypatch.setattr(objects, "KEEP_BYTES", 5 * len(an_object(100)) + 20)
    shelf = filled(200)
    assert 4 <= len(shelf.changes_after(0)) <= 6


async def test_a_store_is_tidied_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "FRESH_BYTES", 0)
    store = Store()
    for number in range(50):
        store.shelf("things").load(Record(f"ns/o{number}", an_object(number), number + 1))
    await store.tidy()
    assert all(is_packed(record._text) for record in store.shelf("things"))
