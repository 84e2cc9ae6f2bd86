"""The journal: what was acknowledged is there again, with its history; nothing goes back."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Never

import pytest

from manta.localplane.store import journal as journals
from manta.localplane.store.database import JournalError, open_database
from manta.localplane.store.journal import SqliteJournal, load
from manta.localplane.store.objects import Compacted
from manta.localplane.store.store import Store, StoreFailed


def opened(path, *, durable=False):
    store = Store()
    load(path, store, durable=durable)
    journal = SqliteJournal(path, store, durable=durable)
    journal.start()
    store.attach(journal)
    return store


def body(name="a", **more):
    return {"metadata": {"name": name}, **more}


@pytest.mark.parametrize("durable", [False, True])
async def test_written_objects_are_loaded_again(tmp_path, durable) -> None:
    path = tmp_path / "db"
    store = opened(path, durable=durable)
    store.put("pods", "ns/a", body("a", x=1), epoch=7)
    store.put("pods", "ns/b", body("b"))
    store.put("pods", "ns/a", body("a", x=2), epoch=8)
    store.remove("pods", "ns/b", body("b"))
    last = store.put("nodes", "n", body("n"))
    await store.wait_durable(last.revision)
    await store.close()
    again = opened(path)
    assert again.revision == last.revision
    found = again.get("pods", "ns/a")
    assert (found.decode()["x"], found.epoch) == (2, 8)
    assert [one.key for one in again.select("pods")] == ["ns/a"]
    assert again.get("nodes", "n").revision == last.revision
    assert again.put("nodes", "m", body("m")).revision == last.revision + 1
    await again.close()


async def test_watches_resume_after_a_restart(tmp_path) -> None:
    path = tmp_path / "db"
    store = opened(path)
    start = store.revision
    store.put("pods", "ns/a", body())
    store.put("pods", "ns/a", body(x=2))
    await store.wait_durable(store.put("pods", "ns/b", body("b")).revision)
    await store.wait_durable(store.remove("pods", "ns/b", body("b")).revision)
    await store.close()
    again = opened(path)
    seen = [(one.type, one.record.key) for one in again.watch("pods", start).take()]
    assert seen == [
        ("ADDED", "ns/a"),
        ("MODIFIED", "ns/a"),
        ("ADDED", "ns/b"),
        ("DELETED", "ns/b"),
    ]
    assert [one.key for one in again.select_at("pods", start + 3)] == ["ns/a", "ns/b"]
    again.put("pods", "ns/c", body("c"))
    assert len(again.resource("pods").changes_after(start)) == 5
    await again.close()


async def test_a_watch_of_compacted_history_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(journals, "_TRIM_EVERY", 4)
    monkeypatch.setattr(journals, "KEEP_CHANGES", 2)
    path = tmp_path / "db"
    store = opened(path)
    for number in range(4):
        await store.wait_durable(store.put("pods", f"ns/{number}", body()).revision)
    last = store.revision
    await store.close()
    again = opened(path)
    assert len(again.select("pods")) == 4
    with pytest.raises(Compacted):
        again.watch("pods", last - 3)
    with pytest.raises(Compacted):
        again.watch("never-seen-resource", 1)
    assert len(again.watch("pods", last - 1).take()) == 1
    await again.close()


async def test_many_writers_share_commits(tmp_path) -> None:
    store = opened(tmp_path / "db")

    async def write(number) -> None:
        await store.wait_durable(store.put("pods", f"ns/{number}", body()).revision)

    await asyncio.gather(*(write(number) for number in range(500)))
    assert store.durable_revision == store.revision
    await store.close()


async def test_a_failing_disk_fails_the_writers(tmp_path, monkeypatch) -> None:
    def broken(*_) -> Never:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(journals, "_write", broken)
    store = opened(tmp_path / "db")
    written = store.put("pods", "ns/a", body())
    with pytest.raises(StoreFailed, match="disk I/O error"):
        await store.wait_durable(written.revision)
    with pytest.raises(StoreFailed):
        store.put("pods", "ns/b", body())
    await store.close()


def test_a_file_that_is_no_journal_is_refused(tmp_path) -> None:
    path = tmp_path / "db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(JournalError, match="not a readable journal"):
        open_database(path, durable=False)


def test_a_journal_of_another_format_is_refused(tmp_path) -> None:
    path = tmp_path / "db"
    database = open_database(path, durable=False)
    database.execute("UPDATE facts SET value = 99 WHERE name = 'schema'")
    database.close()
    with pytest.raises(JournalError, match="format 99"):
        open_database(path, durable=False)


def test_the_file_is_its_owners_alone(tmp_path) -> None:
    open_database(tmp_path / "db", durable=False).close()
    assert (tmp_path / "db").stat().st_mode & 0o777 == 0o600


async def test_only_history_that_fits_into_memory_is_loaded(tmp_path, monkeypatch) -> None:
    path = tmp_path / "db"
    store = opened(path)
    first = store.put("pods", "ns/a", body("a", x="y" * 100)).revision
    *_, last = [store.put("pods", "ns/a", body("a", x="y" * 100)) for _ in range(20)]
    quiet = store.put("nodes", "n", body("n"))
    await store.wait_durable(quiet.revision)
    await store.close()
    monkeypatch.setattr(journals, "KEEP_BYTES", 5 * len(last.raw))
    again = opened(path)
    seen = again.watch("pods", last.revision - 5).take()
    assert [one.revision for one in seen] == list(range(last.revision - 4, last.revision + 1))
    with pytest.raises(Compacted):
        again.watch("pods", last.revision - 6)
    with pytest.raises(Compacted):
        again.watch("pods", first)
    assert [one.revision for one in again.watch("nodes", 1).take()] == [quiet.revision]
    await again.close()
