"""Reads log files of a session from their chunks, in bounded memory."""

from __future__ import annotations

import fnmatch
import gzip
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from manta.history.layout import is_log_chunk, quote_path
from manta.history.store import Store

MAX_LINES: Final = 100_000
MAX_TAIL: Final = 16 * 1024 * 1024
"""Bytes: a line may be as long as the file."""
MAX_CHUNK: Final = 16 * 1024 * 1024
"""Bytes: chunks are written of at most 1 MiB."""
_CACHED_CHUNKS: Final = 8


class LogFile(NamedTuple):
    pod: str
    path: str
    size: int


class LogReader:
    """The logs of one session. Blocking."""

    def __init__(self, store: Store, database: sqlite3.Connection) -> None:
        self._store = store
        self._database = database
        self._chunks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def files(self, pod: str = "", glob: str = "*") -> list[LogFile]:
        """The log files of a Pod, or of all. `glob` is matched against the path."""
        query = "SELECT pod, path, size FROM log_files WHERE ? IN ('', pod) ORDER BY pod, path"
        found = (LogFile(*row) for row in self._database.execute(query, (pod,)))
        return [one for one in found if fnmatch.fnmatchcase(one.path, glob)]

    def pod_of_node(self, node_id: str) -> str | None:
        """The Pod of a Ray node, by its id or by its address."""
        query = """SELECT p.pod FROM pods p LEFT JOIN nodes n ON n.node_id = p.node_id
          WHERE p.node_id = ? OR n.ip = ? LIMIT 1"""
        row = self._database.execute(query, (node_id, node_id)).fetchone()
        return str(row[0]) if row else None

    def pod_of(self, name: str) -> str:
        """The Pod of a node id, an address, or its own name; the name itself if none is known."""
        return self.pod_of_node(name) or name if name else ""

    def pods_with(self, path: str) -> list[str]:
        rows = self._database.execute("SELECT pod FROM log_files WHERE path = ?", (path,))
        return [row[0] for row in rows]

    def read(self, pod: str, path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range. What was never shipped is left out."""
        quote_path(path)  # raises InvalidName
        at = 0
        for base, chunk in self._ranges(pod, path):
            first, last = base + chunk["start"], base + chunk["end"]
            at = max(at, first)
            if last <= at or last <= start:
                continue
            if end is not None and at >= end:
                return
            low = max(at, start) - first
            high = (last if end is None else min(last, end)) - first
            yield self._content(chunk)[low:high]
            at = first + high

    def _ranges(self, pod: str, path: str) -> list[tuple[int, dict[str, Any]]]:
        """Each chunk with the position of its generation in the whole file."""
        query = (
            "SELECT * FROM logs WHERE pod = ? AND path = ? ORDER BY generation, inode, start, end"
        )
        found: list[tuple[int, dict[str, Any]]] = []
        base, size, generation = 0, 0, None
        for row in self._database.execute(query, (pod, path)):
            if (row["generation"], row["inode"]) != generation:
                base, size, generation = base + size, 0, (row["generation"], row["inode"])
            size = max(size, row["end"])
            found.append((base, dict(row)))
        return found

    def tail(
        self, pod: str, path: str, lines: int, before: tuple[int, int | None] = (0, None)
    ) -> bytes:
        """The last lines of a file, or of a range of it, but at most MAX_TAIL bytes of them; reads chunks from
        the end only."""
        lines = min(lines, MAX_LINES)
        start, end = before
        ranges = self._ranges(pod, path)
        size = max((base + chunk["end"] for base, chunk in ranges), default=0)
        stop = size if end is None else min(end, size)
        parts: list[bytes] = []
        count, at, low = 0, stop, max(start, stop - MAX_TAIL)
        for base, chunk in reversed(ranges):
            first = max(base + int(chunk["start"]), low)
            if first >= at or count > lines:
                continue
            part = b"".join(self.read(pod, path, first, at))
            parts.append(part)
            count += part.count(b"\n")
            at = first
        text = b"".join(reversed(parts))
        whole = text.splitlines(keepends=True)
        return b"".join(whole[-lines:]) if lines > 0 else b""

    def _content(self, chunk: dict[str, Any]) -> bytes:
        """The bytes of a chunk; the readable part of a damaged one. Missing bytes are filled, so that offsets
        stay right."""
        key, start, end = chunk["key"], chunk["start"], chunk["end"]
        known = self._chunks.get((key, start))
        if known is None:
            if is_log_chunk(key):
                plain = read_chunk(self._store, key, end - start)
            else:
                plain = self._store.read_range(key, start, end) or b""
            known = plain[: end - start].ljust(end - start, b"\n")
            self._chunks[key, start] = known
            if len(self._chunks) > _CACHED_CHUNKS:
                self._chunks.popitem(last=False)
        return known


def read_chunk(store: Store, key: str, size: int) -> bytes:
    """The bytes of a chunk, but no more than its name says; the readable part of a truncated one. Raises StoreError."""
    content = store.read(key) or b""
    size = min(size, MAX_CHUNK)
    reader = zlib.decompressobj(wbits=31)
    try:
        return reader.decompress(content, size) if size else b""
    except (zlib.error, gzip.BadGzipFile):
        return b""
