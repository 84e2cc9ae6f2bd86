"""Compression: a large resource table takes little memory, and readers see no difference."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.store import objects
from manta.localplane.store.compression import Compressor, is_compressed
from manta.localplane.store.objects import Record, ResourceTable
from manta.localplane.store.store import Store


def an_object(number: int, size: int = 40) -> bytes:
    data = {f"setting-{index}": f"value-{index}" for index in range(size)}
    labels = {"number": str(number), "app": "compressed"}
    return json.dumps({"metadata": {"name": f"o{number}", "labels": labels}, "data": data}).encode()


@given(pattern=st.binary(min_size=1, max_size=70_000), text=st.binary(max_size=70_000))
def test_any_dictionary_decompresses_what_it_compressed(pattern: bytes, text: bytes) -> None:
    compressor = Compressor(pattern)
    compressed = compressor.compress(b"{" + text)
    assert is_compressed(compressed)
    assert compressor.decompress(compressed) == b"{" + text


def test_similar_objects_compress_to_a_tenth() -> None:
    compressor = Compressor(an_object(0))
    raw = an_object(1)
    assert len(compressor.compress(raw)) < len(raw) / 10


def test_a_record_reads_the_same_when_compressed() -> None:
    raw = an_object(7)
    plain, compressed = Record("ns/o7", raw, 1), Record("ns/o7", raw, 1)
    compressed.compress(Compressor(an_object(0)))
    assert compressed.raw == plain.raw
    assert compressed.labels == plain.labels
    assert compressed.decode() == plain.decode()
    compressed.compress(Compressor(an_object(3)))
    assert compressed.raw == raw


def held(resource: ResourceTable) -> int:
    return sum(sys.getsizeof(record._text) for record in resource)


def filled(count: int) -> ResourceTable:
    resource = ResourceTable("things")
    for number in range(count):
        resource.put(Record(f"ns/o{number:04}", an_object(number), number + 1), 0.0)
    return resource


def test_a_small_resource_table_compresses_nothing() -> None:
    assert not any(is_compressed(record._text) for record in filled(50))


def test_a_large_resource_table_compresses_older_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "UNCOMPRESSED_BYTES", 20 * len(an_object(1)))
    resource = filled(400)
    assert held(resource) < sum(len(record.raw) for record in resource) / 3
    assert not is_compressed(resource.records["ns/o0399"]._text)
    assert [record.raw for record in resource.select()] == [an_object(n) for n in range(400)]


def test_loaded_objects_are_compressed_while_others_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "UNCOMPRESSED_BYTES", 0)
    resource = ResourceTable("things")
    for number in range(10):
        resource.load(Record(f"ns/o{number:04}", an_object(number), number + 1))
    assert not any(is_compressed(record._text) for record in resource)
    for number in range(10, 20):
        resource.put(Record(f"ns/o{number:04}", an_object(number), number + 1), 0.0)
    assert all(is_compressed(resource.records[f"ns/o{number:04}"]._text) for number in range(10))


def test_history_and_earlier_states_survive_compression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "UNCOMPRESSED_BYTES", 0)
    resource = filled(30)
    for number in range(30):
        resource.put(Record(f"ns/o{number:04}", an_object(number + 100), number + 31), 0.0)
    then = resource.select_at(30)
    assert [record.raw for record in then] == [an_object(number) for number in range(30)]
    replayed = resource.replay(30)
    assert [change.record.raw for change in replayed] == [an_object(n + 100) for n in range(30)]
    assert [change.previous.raw for change in replayed if change.previous] == [
        an_object(number) for number in range(30)
    ]


def test_the_history_limit_counts_uncompressed_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "UNCOMPRESSED_BYTES", 0)
    monkeypatch.setattr(objects, "KEEP_BYTES", 5 * len(an_object(100)) + 20)
    resource = filled(200)
    assert 4 <= len(resource.changes_after(0)) <= 6


async def test_a_store_is_compressed_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "UNCOMPRESSED_BYTES", 0)
    store = Store()
    for number in range(50):
        store.resource("things").load(Record(f"ns/o{number}", an_object(number), number + 1))
    await store.compress_loaded()
    assert all(is_compressed(record._text) for record in store.resource("things"))
