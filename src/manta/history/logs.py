"""Reads log files of a session from their chunks, in bounded memory."""

from __future__ import annotations

import fnmatch
import gzip
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

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


class _Piece(NamedTuple):
    """A part of one chunk."""

    key: str
    start: int
    end: int
    """The bytes of its file that the chunk has."""
    low: int
    high: int
    """The bytes of the chunk that are meant."""


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
        for piece in self._pieces(pod, path, start, end):
            yield self._content(piece)

    def _pieces(self, pod: str, path: str, start: int, end: int | None) -> Iterator[_Piece]:
        """The parts of chunks that make up a range. What two chunks have is in the first piece only."""
        at = 0
        for base, key, chunk_start, chunk_end in self._chunks_of(pod, path):
            first, last = base + chunk_start, base + chunk_end
            at = max(at, first)
            if last <= at or last <= start:
                continue
            if end is not None and at >= end:
                return
            low = max(at, start) - first
            high = (last if end is None else min(last, end)) - first
            yield _Piece(key, chunk_start, chunk_end, low, high)
            at = first + high

    def _chunks_of(self, pod: str, path: str) -> Iterator[tuple[int, str, int, int]]:
        """The position of its generation in the whole file, key, start and end of each chunk."""
        query = """SELECT generation, inode, key, start, end FROM logs WHERE pod = ? AND path = ?
          ORDER BY generation, inode, start, end"""
        base, size, of_file = 0, 0, None
        for generation, inode, key, start, end in self._database.execute(query, (pod, path)):
            if (generation, inode) != of_file:
                base, size, of_file = base + size, 0, (generation, inode)
            size = max(size, end)
            yield base, key, start, end

    def tail(
        self, pod: str, path: str, lines: int, before: tuple[int, int | None] = (0, None)
    ) -> bytes:
        """The last lines of a file, or of a range of it, but at most MAX_TAIL bytes of them; reads chunks from
        the end only."""
        lines = min(lines, MAX_LINES)
        start, end = before
        ends = (base + chunk_end for base, _, _, chunk_end in self._chunks_of(pod, path))
        size = max(ends, default=0)
        stop = size if end is None else min(end, size)
        parts: list[bytes] = []
        count = 0
        # One list for all: a file that grows by a line in each round has a chunk for each.
        for piece in reversed(list(self._pieces(pod, path, max(start, stop - MAX_TAIL), stop))):
            if count > lines:
                break
            parts.append(self._content(piece))
            count += parts[-1].count(b"\n")
        whole = b"".join(reversed(parts)).splitlines(keepends=True)
        return b"".join(whole[-lines:]) if lines > 0 else b""

    def _content(self, piece: _Piece) -> bytes:
        """The bytes of a piece; the readable part of a damaged one. Missing bytes are filled, so that offsets
        stay right."""
        key, start, end, low, high = piece
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
        return known[low:high]


def read_chunk(store: Store, key: str, size: int) -> bytes:
    """The bytes of a chunk, but no more than its name says; the readable part of a truncated one. Raises StoreError."""
    content = store.read(key) or b""
    size = min(size, MAX_CHUNK)
    reader = zlib.decompressobj(wbits=31)
    try:
        return reader.decompress(content, size) if size else b""
    except (zlib.error, gzip.BadGzipFile):
        return b""
