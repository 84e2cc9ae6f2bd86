"""The store: one revision for all, watchers that miss nothing, writes that wait for the journal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.localplane.store import objects, watchers
from manta.localplane.store.store import Store, StoreFailed


class HeldJournal:
    """Remembers what was appended; the test says when it is safe."""

    def __init__(self) -> None:
        self.appended: list[Any] = []
        self.closed = False

    def append(self, resource, change) -> None:
        self.appended.append((resource, change.revision))

    def reverted(self) -> None:
        self.appended.clear()

    async def close(self) -> None:
        self.closed = True


def body(name="a"):
    return {"metadata": {"name": name}}


def test_one_number_counts_every_write() -> None:
    store = Store(revision=10)
    assert store.put("a", "x", body()).revision == 11
    assert store.put("b", "x", body()).revision == 12
    assert store.remove("a", "x", body()).revision == 13
    assert store.revision == 13
    assert store.get("a", "x") is None
    assert b'"resourceVersion":"12"' in store.get("b", "x").raw


async def test_a_watcher_gets_changes_after_its_revision() -> None:
    store = Store()
    store.put("a", "x", body())
    since = store.revision
    store.put("a", "y", body())
    watcher = store.watch("a", since)
    store.put("a", "z", body())
    store.put("b", "other", body())
    assert [change.record.key for change in watcher.take()] == ["y", "z"]


async def test_a_waiting_watcher_wakes_up() -> None:
    store = Store()
    watcher = store.watch("a", store.revision)
    waiting = asyncio.create_task(watcher.ready(None))
    await asyncio.sleep(0)
    store.put("a", "x", body())
    assert await waiting is True
    assert await watcher.ready(0) is True
    watcher.take()
    assert await watcher.ready(0) is False


async def test_a_watcher_that_falls_behind_is_ended(monkeypatch) -> None:
    monkeypatch.setattr(watchers, "QUEUE_LIMIT", 2)
    store = Store()
    watcher = store.watch("a", store.revision)
    for name in "xyz":
        store.put("a", name, body())
    assert (watcher.closed, watcher.lost, watcher.take()) == (True, True, [])


async def test_a_watcher_behind_the_history_is_ended(monkeypatch) -> None:
    """X15: what it has not taken would stay in memory for it alone."""
    monkeypatch.setattr(objects, "KEEP_BYTES", 1000)
    store = Store()
    slow, quick = (store.watch("a", store.revision) for _ in range(2))
    for number in range(100):
        store.put("a", "x", body())
        assert [change.revision for change in quick.take()] == [store.revision], number
    assert slow.lost
    assert not quick.lost
    store.put("a", "x", body())
    assert slow.take() == []


async def test_all_resources_share_one_limit_of_history(monkeypatch) -> None:
    """X15."""
    monkeypatch.setattr(objects, "HISTORY_BYTES", 3000)
    store = Store()
    for number in range(100):
        for name in "abc":
            store.put(name, f"{number}", body())
    assert sum(resource.history_bytes for resource in store.resources().values()) <= 3000


async def test_changes_are_taken_by_their_size() -> None:
    store = Store()
    watcher = store.watch("a", store.revision)
    for name in "xyz":
        store.put("a", name, body())
    assert [change.record.key for change in watcher.take(1)] == ["x"]
    assert [change.record.key for change in watcher.take(10**6)] == ["y", "z"]
    assert watcher.empty


async def test_ended_watches_get_no_changes() -> None:
    store = Store()
    watcher = store.watch("a", store.revision)
    assert store.watcher_count("a") == 1
    store.unwatch(watcher)
    store.put("a", "x", body())
    assert watcher.take() == []
    assert store.watcher_count("a") == 0


async def test_watchers_get_a_write_only_when_it_is_durable() -> None:
    store, journal = Store(), HeldJournal()
    store.attach(journal)
    watcher = store.watch("a", store.revision)
    written = store.put("a", "x", body())
    waiting = asyncio.create_task(store.wait_durable(written.revision))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert watcher.take() == []
    late = store.watch("a", written.revision - 1)
    assert late.take() == []
    store.committed(written.revision)
    await waiting
    assert [change.revision for change in watcher.take()] == [written.revision]
    assert [change.revision for change in late.take()] == [written.revision]


async def test_a_commit_makes_earlier_writes_durable() -> None:
    store, journal = Store(), HeldJournal()
    store.attach(journal)
    first, second = store.put("a", "x", body()), store.put("a", "y", body())
    waits = [asyncio.create_task(store.wait_durable(one.revision)) for one in (first, second)]
    await asyncio.sleep(0)
    store.committed(first.revision)
    await asyncio.sleep(0)
    assert [wait.done() for wait in waits] == [True, False]
    store.committed(second.revision)
    await asyncio.gather(*waits)


async def test_a_failed_journal_fails_every_writer() -> None:
    store, journal = Store(), HeldJournal()
    store.attach(journal)
    written = store.put("a", "x", body())
    waiting = asyncio.create_task(store.wait_durable(written.revision))
    watcher = store.watch("a", store.revision)
    await asyncio.sleep(0)
    store.fail(OSError("disk full"))
    with pytest.raises(StoreFailed, match="disk full"):
        await waiting
    with pytest.raises(StoreFailed):
        store.put("a", "y", body())
    with pytest.raises(StoreFailed):
        await store.wait_durable(written.revision)
    assert watcher.closed


async def test_a_revision_of_the_future_can_be_awaited() -> None:
    store = Store()
    waiting = asyncio.create_task(store.wait_reached(store.revision + 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    store.put("a", "x", body())
    await waiting


async def test_closing_ends_watches_and_the_journal() -> None:
    store, journal = Store(), HeldJournal()
    store.attach(journal)
    watcher = store.watch("a", store.revision)
    await store.close()
    assert watcher.closed
    assert journal.closed
