"""The journal: every write goes to SQLite before it is acknowledged.

One thread owns the database. Writes that arrive during a commit share the next commit and its sync.
The database has the latest state of each object and the latest changes, so that watchers can resume
after a restart.

With `durable` every commit is synced and survives a power loss. Without it a commit survives the end
of the process, because the kernel has it when it is acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from manta.localplane.store.checksums import Tally, change_sum, object_sum
from manta.localplane.store.database import (
    JournalError,
    check,
    open_database,
    read_facts,
    refuse_lost,
    set_tallies,
    tallies,
    write_facts,
)
from manta.localplane.store.headfile import HeadFile
from manta.localplane.store.objects import KEEP_BYTES, Change, Record, ResourceTable
from manta.localplane.store.store import Store

KEEP_CHANGES: Final = 20_000
"""How many changes the database keeps for watchers that resume."""
_TRIM_EVERY: Final = 5_000
_RETRY_PAUSE_SECONDS: Final = 1.0

_Entry = tuple[str, Change]
_Close = None
_Reverted = Literal["reverted"]
"""Queued by the store when it has undone the writes that failed."""


class SqliteJournal:
    """Append on the event loop, commit in a thread of its own."""

    def __init__(self, path: Path, store: Store, *, durable: bool = False) -> None:
        self._path = path
        self._store = store
        self._durable = durable
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Entry | _Reverted | None] = queue.SimpleQueue()
        self._since_trim = 0
        self._facts: dict[str, int] = {}
        self._closed = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def append(self, resource: str, change: Change) -> None:
        self._queue.put((resource, change))

    def reverted(self) -> None:
        self._queue.put("reverted")

    async def close(self) -> None:
        """Commit what is queued, then close the database."""
        self._queue.put(_Close)
        await self._closed

    # ── the thread ───────────────────────────────────────────────────────────────────────
    def _run(self) -> None:
        try:
            database = open_database(self._path, durable=self._durable)
            try:
                self._facts = read_facts(database)
                head = HeadFile(self._path, self._facts["store"])
                clean = self._serve(database, head)
            finally:
                database.close()
            head.write(self._facts.get("revision", 0), clean=clean)
            head.close()
        except (sqlite3.Error, OSError, JournalError) as error:
            self._call_soon(self._store.fail, error)
        self._call_soon(self._finished)

    def _serve(self, database: sqlite3.Connection, head: HeadFile) -> bool:
        """Commit until the journal is closed. Return whether everything is written.

        After a failure of the disk it tries again, because someone may free space."""
        while True:
            entries, end = self._collect()
            try:
                self._commit(database, entries, head)
            except (sqlite3.OperationalError, OSError) as error:
                _roll_back(database)
                self._call_soon(self._store.fail, error)
                if end or not self._wait_writable(database):
                    return False
            if end:
                return True

    def _collect(self) -> tuple[list[_Entry], bool]:
        """Return the entries of the next commit, at least one, and whether the journal is closed."""
        entries: list[_Entry] = []
        item = self._queue.get()
        while True:
            if item is _Close:
                return entries, True
            if isinstance(item, tuple):
                entries.append(item)
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return entries, False

    def _commit(self, database: sqlite3.Connection, writes: list[_Entry], head: HeadFile) -> None:
        if not writes:
            return
        database.execute("BEGIN IMMEDIATE")
        facts = dict(self._facts)
        objects, changes = tallies(facts)
        _write(database, writes, objects, changes)
        facts["revision"] = writes[-1][1].revision
        trims = self._since_trim + len(writes) >= _TRIM_EVERY
        if trims:
            _trim(database, facts, changes, writes[-1][1].revision - KEEP_CHANGES)
        set_tallies(facts, objects, changes)
        write_facts(database, facts, self._facts)
        database.execute("COMMIT")
        self._facts = facts
        self._since_trim = 0 if trims else self._since_trim + len(writes)
        head.write(facts["revision"])
        self._call_soon(self._store.committed, writes[-1][1].revision)

    def _wait_writable(self, database: sqlite3.Connection) -> bool:
        """Wait until the disk accepts writes again. Return False if the journal was closed meanwhile."""
        item = self._queue.get()
        while item != "reverted":  # the store undoes these entries too
            if item is _Close:
                return False
            item = self._queue.get()
        while True:
            try:
                item = self._queue.get(timeout=_RETRY_PAUSE_SECONDS)
            except queue.Empty:
                if self._is_writable(database):
                    self._call_soon(self._store.recover)
                    return True
                continue
            if item is _Close:
                return False

    def _is_writable(self, database: sqlite3.Connection) -> bool:
        try:
            database.execute("BEGIN IMMEDIATE")
            known = self._facts.get("revision", 0)
            same = read_facts(database).get("revision", 0) == known
            write_facts(database, dict(self._facts))
            database.execute("COMMIT" if same else "ROLLBACK")
        except sqlite3.OperationalError:
            _roll_back(database)
            return False
        return same

    def _finished(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def _call_soon(self, function: object, *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]
        except RuntimeError:  # the event loop is closed
            return


def _roll_back(database: sqlite3.Connection) -> None:
    if database.in_transaction:
        with contextlib.suppress(sqlite3.OperationalError):
            database.execute("ROLLBACK")


def _write(
    database: sqlite3.Connection, writes: list[_Entry], objects: Tally, changes: Tally
) -> None:
    """Insert all changes, and the last state of each object."""
    latest: dict[tuple[str, str], Change] = {}
    rows = []
    for resource, change in writes:
        record, previous = change.record, change.previous
        if previous is not None and (resource, record.key) not in latest:
            objects.remove(_sum_of(resource, previous))
        latest[resource, record.key] = change
        row = (
            change.revision,
            resource,
            record.key,
            change.type,
            record.epoch,
            record.raw,
            previous.raw if previous is not None else None,
            previous.revision if previous is not None else None,
        )
        checksum = change_sum(row)
        changes.add(checksum)
        rows.append((*row, checksum))
    database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    kept = [
        (resource, key, change.revision, change.record.epoch, change.record.raw)
        for (resource, key), change in latest.items()
        if change.type != "DELETED"
    ]
    summed = [(*row, object_sum(*row)) for row in kept]
    for *_, checksum in summed:
        objects.add(checksum)
    database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)", summed)
    database.executemany(
        "DELETE FROM objects WHERE shelf = ? AND key = ?",
        [place for place, change in latest.items() if change.type == "DELETED"],
    )


def _sum_of(resource: str, record: Record) -> int:
    return object_sum(resource, record.key, record.revision, record.epoch, record.raw)


def _trim(database: sqlite3.Connection, facts: dict[str, int], changes: Tally, up_to: int) -> None:
    for (checksum,) in database.execute(
        "SELECT checksum FROM changes WHERE revision <= ?", (up_to,)
    ):
        changes.remove(checksum)
    database.execute("DELETE FROM changes WHERE revision <= ?", (up_to,))
    facts["compacted"] = max(up_to, facts.get("compacted", 0))


def load(path: Path, store: Store, *, durable: bool, keys: Iterable[Path] = ()) -> None:
    """Load objects and history into an empty store. Raises JournalError.

    `keys` are files that exist only if the plane ran before.
    """
    refuse_lost(path, keys)
    database = open_database(path, durable=durable)
    try:
        check(database, path, durable=durable)
        facts = read_facts(database)
        store.revision = max(store.revision, facts.get("revision", 0))
        resources: dict[str, ResourceTable] = {}
        rows = database.execute("SELECT shelf, key, revision, epoch, raw FROM objects")
        for name, key, revision, epoch, raw in rows:
            resource = resources.setdefault(name, store.resource(name))
            resource.load(Record(key, raw, revision, epoch))
        for resource in resources.values():
            resource.finish_loading()
        _load_changes(database, store, facts.get("compacted", 0))
    finally:
        database.close()


def _load_changes(database: sqlite3.Connection, store: Store, compacted: int) -> None:
    store.begin_history(compacted)
    for name, oldest in _oldest_revisions(database).items():
        resource = store.resource(name)
        rows = database.execute(
            "SELECT revision, key, type, epoch, raw, previous, previous_revision FROM changes "
            "WHERE shelf = ? AND revision > ? ORDER BY revision",
            (name, oldest),
        )
        for revision, key, kind, epoch, raw, before, before_revision in rows:
            record = resource.records.get(key)
            if record is None or record.revision != revision:
                record = Record(key, raw, revision, epoch)
            previous = None if before is None else Record(key, before, before_revision, epoch)
            resource.record_change(
                Change(revision, kind, record, previous, store.elapsed(), len(raw))
            )
        resource.compact(oldest)


def _oldest_revisions(database: sqlite3.Connection) -> dict[str, int]:
    """Return by resource the revision after which its history fits into memory."""
    free: dict[str, int] = {}
    after: dict[str, int] = {}
    rows = database.execute(
        "SELECT revision, shelf, length(raw) FROM changes ORDER BY revision DESC"
    )
    for revision, name, size in rows:
        left = free.get(name, KEEP_BYTES) - size
        free[name] = left
        if left < 0:
            after.setdefault(name, revision)
    return {name: after.get(name, 0) for name in free}
