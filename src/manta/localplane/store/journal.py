"""The journal: every write in SQLite before anyone is told of it.

One thread owns the database. Writes that come while a commit runs are committed together by the
next one, so that many writers share one sync. The database holds the latest state of each object
and the latest changes, so that watchers can resume after a restart; nothing else is needed to
open the store again.

`durable` syncs every commit (power loss); without it a commit survives the end of the process,
killed or not, because it has left this process when it is acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from pathlib import Path
from typing import Final

from manta.localplane.store.objects import KEEP_BYTES, Change, Record, Shelf
from manta.localplane.store.store import Store

SCHEMA_VERSION: Final = 1
KEEP_CHANGES: Final = 20_000
"""How many changes the database remembers for watchers that come back."""
_TRIM_EVERY: Final = 5_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    shelf TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, epoch INTEGER NOT NULL,
    raw BLOB NOT NULL, PRIMARY KEY (shelf, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    revision INTEGER PRIMARY KEY, shelf TEXT NOT NULL, key TEXT NOT NULL, type TEXT NOT NULL,
    epoch INTEGER NOT NULL, raw BLOB NOT NULL, previous BLOB, previous_revision INTEGER
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""

_Entry = tuple[str, Change]


class JournalError(Exception):
    """The file is not a journal that this version can read."""


class SqliteJournal:
    """Appends from the event loop, commits in its own thread."""

    def __init__(self, path: Path, store: Store, *, durable: bool = False) -> None:
        self._path = path
        self._store = store
        self._durable = durable
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._since_trim = 0
        self._closed = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def append(self, shelf: str, change: Change) -> None:
        self._queue.put((shelf, change))

    async def close(self) -> None:
        """Commit what is queued, then let the database go."""
        self._queue.put(None)
        await self._closed

    # ── the thread ───────────────────────────────────────────────────────────────────────
    def _run(self) -> None:
        try:
            database = open_database(self._path, durable=self._durable)
            try:
                while self._commit(database, self._collect()):
                    pass
            finally:
                database.close()
        except (sqlite3.Error, OSError) as error:
            self._tell(self._store.fail, error)
        self._tell(self._finished)

    def _collect(self) -> list[_Entry | None]:
        """At least one entry; then everything that has come meanwhile: one commit for all."""
        entries = [self._queue.get()]
        while entries[-1] is not None:
            try:
                entries.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return entries

    def _commit(self, database: sqlite3.Connection, entries: list[_Entry | None]) -> bool:
        writes = [entry for entry in entries if entry is not None]
        if writes:
            database.execute("BEGIN IMMEDIATE")
            _write(database, writes)
            self._since_trim += len(writes)
            if self._since_trim >= _TRIM_EVERY:
                self._since_trim = 0
                _trim(database, writes[-1][1].revision - KEEP_CHANGES)
            database.execute("COMMIT")
            self._tell(self._store.committed, writes[-1][1].revision)
        return len(writes) == len(entries)

    def _finished(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def _tell(self, function: object, *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]
        except RuntimeError:  # the loop is gone: nobody is left to be told
            return


def _write(database: sqlite3.Connection, writes: list[_Entry]) -> None:
    """Of several writes to one object, only the last matters for the state."""
    latest: dict[tuple[str, str], Change] = {}
    rows = []
    for shelf, change in writes:
        record, previous = change.record, change.previous
        latest[shelf, record.key] = change
        rows.append(
            (
                change.revision,
                shelf,
                record.key,
                change.type,
                record.epoch,
                record.raw,
                previous.raw if previous is not None else None,
                previous.revision if previous is not None else None,
            )
        )
    database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.executemany(
        "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
        [
            (shelf, key, change.revision, change.record.epoch, change.record.raw)
            for (shelf, key), change in latest.items()
            if change.type != "DELETED"
        ],
    )
    database.executemany(
        "DELETE FROM objects WHERE shelf = ? AND key = ?",
        [place for place, change in latest.items() if change.type == "DELETED"],
    )
    database.execute(
        "INSERT OR REPLACE INTO facts VALUES ('revision', ?)", (writes[-1][1].revision,)
    )


def _trim(database: sqlite3.Connection, up_to: int) -> None:
    database.execute("DELETE FROM changes WHERE revision <= ?", (up_to,))
    database.execute(
        "INSERT OR REPLACE INTO facts SELECT 'compacted', MAX(?, "
        "COALESCE((SELECT value FROM facts WHERE name = 'compacted'), 0))",
        (up_to,),
    )


def open_database(path: Path, *, durable: bool) -> sqlite3.Connection:
    """Secrets lie here, so the file is its owner's alone from the first moment."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _prepare(database, path, durable=durable)
    except sqlite3.DatabaseError as error:
        database.close()
        raise JournalError(f"{path} is not a readable journal: {error}") from error
    except JournalError:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path, *, durable: bool) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    database.execute("PRAGMA journal_size_limit = 67108864")
    database.executescript(_SCHEMA)
    found = database.execute("SELECT value FROM facts WHERE name = 'schema'").fetchone()
    if found is None:
        database.execute("INSERT INTO facts VALUES ('schema', ?)", (SCHEMA_VERSION,))
    elif found[0] != SCHEMA_VERSION:
        raise JournalError(
            f"{path} was written in format {found[0]}; this version reads {SCHEMA_VERSION}"
        )


def load(path: Path, store: Store, *, durable: bool) -> None:
    """Fill an empty store with what the journal holds, history included."""
    database = open_database(path, durable=durable)
    try:
        facts = dict(database.execute("SELECT name, value FROM facts").fetchall())
        store.revision = max(store.revision, facts.get("revision", 0))
        shelves: dict[str, Shelf] = {}
        rows = database.execute("SELECT shelf, key, revision, epoch, raw FROM objects")
        for name, key, revision, epoch, raw in rows:
            shelf = shelves.setdefault(name, store.shelf(name))
            shelf.load(Record(key, raw, revision, epoch))
        for shelf in shelves.values():
            shelf.loaded()
        _load_changes(database, store, facts.get("compacted", 0))
    finally:
        database.close()


def _load_changes(database: sqlite3.Connection, store: Store, compacted: int) -> None:
    store.begin_history(compacted)
    for name, oldest in _worth_loading(database).items():
        shelf = store.shelf(name)
        rows = database.execute(
            "SELECT revision, key, type, epoch, raw, previous, previous_revision FROM changes "
            "WHERE shelf = ? AND revision > ? ORDER BY revision",
            (name, oldest),
        )
        for revision, key, kind, epoch, raw, before, before_revision in rows:
            record = shelf.records.get(key)
            if record is None or record.revision != revision:
                record = Record(key, raw, revision, epoch)
            previous = None if before is None else Record(key, before, before_revision, epoch)
            shelf.remember(Change(revision, kind, record, previous, store.elapsed(), len(raw)))
        shelf.forget(oldest)


def _worth_loading(database: sqlite3.Connection) -> dict[str, int]:
    """For each shelf, after which revision its history fits into memory: nothing older is read."""
    room: dict[str, int] = {}
    after: dict[str, int] = {}
    rows = database.execute(
        "SELECT revision, shelf, length(raw) FROM changes ORDER BY revision DESC"
    )
    for revision, name, size in rows:
        left = room.get(name, KEEP_BYTES) - size
        room[name] = left
        if left < 0:
            after.setdefault(name, revision)
    return {name: after.get(name, 0) for name in room}
