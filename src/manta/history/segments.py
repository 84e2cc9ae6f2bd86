"""The objects of one session in the order of their keys, and the event logs that their chunks cut."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from manta.history.layout import LogChunk
from manta.history.store import StoredObject

MAX_LINE_BYTES: Final = 16 * 1024 * 1024


class Segments:
    """Sorted on disk: a session of some days has hundreds of thousands of objects."""

    def __init__(self, path: Path, found: Iterable[StoredObject]) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-16384"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute(
            "CREATE TABLE segments (key TEXT PRIMARY KEY, size INTEGER, modified REAL) WITHOUT ROWID"
        )
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO segments VALUES (?, ?, ?)", found)
        self.fingerprint = fingerprint(self)

    def __iter__(self) -> Iterator[StoredObject]:
        return map(StoredObject._make, self._db.execute("SELECT * FROM segments ORDER BY key"))

    def close(self) -> None:
        self._db.close()


def fingerprint(segments: Iterable[StoredObject]) -> str:
    """The same for the same objects in any order: they are not held in memory to be sorted."""
    total = 0
    for one in segments:
        digest = hashlib.sha256(f"{one.key}\0{one.size}".encode()).digest()
        total += int.from_bytes(digest[:16], "big")
    return f"{total % 2**128:032x}"


class EventLogLines:
    """The lines of event logs, whose chunks come in order. A line that two chunks share is joined again."""

    def __init__(self) -> None:
        self._file: tuple[object, ...] = ()
        self._at = 0
        self._rest = b""

    def add(self, chunk: LogChunk, content: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk. A range that was shipped twice counts once."""
        file = (chunk.pod, chunk.path, chunk.generation, chunk.inode)
        if file != self._file or chunk.start > self._at:  # another file, or bytes are missing
            yield from self.end()
            self._file, self._at = file, chunk.start
        new = content[self._at - chunk.start :]
        self._at = max(self._at, chunk.start + len(content))
        *whole, self._rest = (self._rest + new).split(b"\n")
        yield from whole
        if len(self._rest) > MAX_LINE_BYTES:
            yield from self.end()

    def end(self) -> Iterator[bytes]:
        """What follows the last line break."""
        rest, self._rest = self._rest, b""
        if rest:
            yield rest
