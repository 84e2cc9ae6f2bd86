"""The SQLite file of the journal: created, opened, migrated, and checked before use."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from manta.kube.errors import MantaError
from manta.localplane.store.checksums import SUM, Tally, change_sum, facts_sum, object_sum
from manta.localplane.store.headfile import Head, boot_id, head_path, read_head

log = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 2
_WITHOUT_CHECKSUMS: Final = 1

_SCHEMA = """
CREATE TABLE objects (
    shelf TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, epoch INTEGER NOT NULL,
    raw BLOB NOT NULL, checksum INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (shelf, key)
) WITHOUT ROWID;
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, shelf TEXT NOT NULL, key TEXT NOT NULL, type TEXT NOT NULL,
    epoch INTEGER NOT NULL, raw BLOB NOT NULL, previous BLOB, previous_revision INTEGER,
    checksum INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_OBJECTS = "SELECT shelf, key, revision, epoch, raw, checksum FROM objects"
_CHANGES = (
    "SELECT revision, shelf, key, type, epoch, raw, previous, previous_revision, checksum "
    "FROM changes ORDER BY revision"
)
RECOVERY = (
    "Nothing was changed. To recover: `manta up --restore FILE --replace-state` with a file that"
    " `manta backup` has made, or begin with an empty plane: `manta down --purge`, then `manta up`"
)


class JournalError(MantaError):
    """The journal cannot be used. The message says what is wrong and how to recover."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}. {RECOVERY}")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of damaged rows into JournalError."""
    try:
        yield
    except (sqlite3.DatabaseError, TypeError, ValueError, OverflowError) as error:
        raise JournalError(path, f"is not a readable journal: {error}") from error


def open_database(path: Path, *, durable: bool) -> sqlite3.Connection:
    """Open the journal; create it if it does not exist. Raises JournalError."""
    if not path.exists():
        _create(path)
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        with _readable(path):
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            database.execute("PRAGMA journal_size_limit = 67108864")
            _check_version(database, path)
    except JournalError:
        database.close()
        raise
    return database


def _create(path: Path) -> None:
    """Create the file in one step, so that it is never empty. It has Secrets: mode 0600 from the start."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(fresh, isolation_level=None)
    try:
        database.executescript(_SCHEMA)
        write_facts(database, {"schema": SCHEMA_VERSION, "store": secrets.randbits(62)})
    finally:
        database.close()
    fresh.replace(path)


def _check_version(database: sqlite3.Connection, path: Path) -> None:
    found = database.execute("SELECT value FROM facts WHERE name = 'schema'").fetchone()
    if found is None or found[0] not in (_WITHOUT_CHECKSUMS, SCHEMA_VERSION):
        version = found[0] if found else "unknown"
        raise JournalError(
            path, f"was written in format {version}; this version reads {SCHEMA_VERSION}"
        )


# ── facts ────────────────────────────────────────────────────────────────────────────────
def read_facts(database: sqlite3.Connection) -> dict[str, int]:
    return dict(database.execute("SELECT name, value FROM facts").fetchall())


def write_facts(
    database: sqlite3.Connection, facts: dict[str, int], known: dict[str, int] | None = None
) -> None:
    """Write the facts and their checksum; only those that differ from `known`."""
    facts[SUM] = facts_sum(facts)
    changed = facts.items() - (known or {}).items()
    database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", list(changed))


def tallies(facts: dict[str, int]) -> tuple[Tally, Tally]:
    """Return the tallies of objects and of changes from the facts."""
    return (
        Tally(facts.get("objects", 0), facts.get("objects_sum", 0)),
        Tally(facts.get("changes", 0), facts.get("changes_sum", 0)),
    )


def set_tallies(facts: dict[str, int], objects: Tally, changes: Tally) -> None:
    facts["objects"], facts["objects_sum"] = objects.count, objects.sum
    facts["changes"], facts["changes_sum"] = changes.count, changes.sum


# ── checks at the start ──────────────────────────────────────────────────────────────────
def refuse_lost(path: Path, keys: Iterable[Path] = ()) -> None:
    """Raises JournalError if the journal is missing or empty although other files of the plane exist."""
    if path.exists() and path.stat().st_size:
        return
    beside = [head_path(path), path.with_name(f"{path.name}-wal"), *keys]
    left = [one for one in beside if one.exists()]
    if left:
        what = "is empty" if path.exists() else "is missing"
        names = ", ".join(str(one) for one in left)
        raise JournalError(path, f"{what}, but {names} shows that there was a plane here")
    path.unlink(missing_ok=True)


def check(database: sqlite3.Connection, path: Path, *, durable: bool = False) -> None:
    """Check pages, rows and checksums, and migrate older formats. Raises JournalError."""
    with _readable(path):
        verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise JournalError(path, f"is damaged: {verdict}")
        if read_facts(database)["schema"] == _WITHOUT_CHECKSUMS:
            _add_checksums(database, path)
        facts = read_facts(database)
        if facts.get(SUM) != facts_sum(facts):
            raise JournalError(path, "is damaged: the table of facts does not match its checksum")
        _check_rows(database, path, facts)
        _check_head(path, facts, read_head(path), durable=durable)


def _check_rows(database: sqlite3.Connection, path: Path, facts: dict[str, int]) -> None:
    objects, changes = Tally(), Tally()
    for *row, checksum in database.execute(_OBJECTS):
        _check_row(path, "object", row[:2], object_sum(*row), checksum)
        objects.add(checksum)
    for *row, checksum in database.execute(_CHANGES):
        _check_row(path, "change", row[:3], change_sum(row), checksum)
        changes.add(checksum)
    for name, found, known in zip(
        ("objects", "changes"), (objects, changes), tallies(facts), strict=True
    ):
        if found != known:
            what = f"has {found.count} {name} where {known.count} were written, or others"
            raise JournalError(path, f"is damaged: it {what}")


def _check_row(path: Path, kind: str, place: list[Any], found: int, known: int) -> None:
    if found != known:
        name = "/".join(str(part) for part in place)
        raise JournalError(path, f"is damaged: {kind} {name} does not match its checksum")


def _check_head(path: Path, facts: dict[str, int], head: Head | None, *, durable: bool) -> None:
    if head is None:
        return
    revision = facts.get("revision", 0)
    if head.store != facts.get("store"):
        raise JournalError(path, f"is not the journal that {head_path(path)} belongs to")
    if head.revision <= revision:
        return
    lost = f"ends at revision {revision}, but revision {head.revision} was acknowledged"
    if durable or head.clean or head.boot == boot_id():
        raise JournalError(path, f"{lost}: its last writes are lost")
    log.warning(
        "%s %s: the machine went down before they were on the disk (`--durable` prevents that)",
        path,
        lost,
    )


# ── migration of older journals ──────────────────────────────────────────────────────────
class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Meta = _Meta()


_read_version = msgspec.json.Decoder(_Versioned).decode


def _add_checksums(database: sqlite3.Connection, path: Path) -> None:
    """Give every row of a journal without checksums one. Its objects must at least be objects."""
    database.execute("BEGIN IMMEDIATE")
    try:
        for table in ("objects", "changes"):
            database.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
        objects, changes = Tally(), Tally()
        for *row, _ in database.execute(_OBJECTS).fetchall():
            _check_content(path, row)
            checksum = object_sum(*row)
            database.execute(
                "UPDATE objects SET checksum = ? WHERE shelf = ? AND key = ?", (checksum, *row[:2])
            )
            objects.add(checksum)
        for *row, _ in database.execute(_CHANGES).fetchall():
            checksum = change_sum(row)
            database.execute(
                "UPDATE changes SET checksum = ? WHERE revision = ?", (checksum, row[0])
            )
            changes.add(checksum)
        facts = read_facts(database) | {"schema": SCHEMA_VERSION, "store": secrets.randbits(62)}
        set_tallies(facts, objects, changes)
        write_facts(database, facts)
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def _check_content(path: Path, row: list[Any]) -> None:
    resource, key, revision, _, raw = row
    if _read_version(raw).metadata.resource_version != str(revision):
        raise JournalError(path, f"is damaged: object {resource}/{key} is not that of its revision")
