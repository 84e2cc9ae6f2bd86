"""Posted events that wait for the store: files of one session each, on a bounded part of the disk."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from manta.localplane.append import append_line

_FILES: Final = 16
"""The limit is at least so many files, so that the oldest can go without the rest."""
_FILE_BYTES: Final = 8 * 1024 * 1024


class Spool:
    """Safe for threads. A file name is never used twice, as objects of the store are named by it."""

    def __init__(self, directory: Path, limit: int, on_drop: Callable[[int], None]) -> None:
        """`on_drop` gets the bytes of events that the limit cost. Raises OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._limit = limit
        self._on_drop = on_drop
        self._lock = threading.Lock()
        self._open: dict[str, Path] = {}
        """The file that the posts of a session are appended to."""
        self._size = sum(one.stat().st_size for one in self._oldest_first())
        self._fresh = 0

    def append(self, session: str, body: bytes) -> int:
        """Bytes that came since the last `complete_files`. Raises OSError; then nothing was added."""
        line = body.replace(b"\n", b" ") + b"\n"
        with self._lock:
            file = self._open.get(session) or self._new_file(session)
            if append_line(file, line) >= min(_FILE_BYTES, self._limit // _FILES):
                del self._open[session]
            self._size += len(line)
            self._fresh += len(line)
            if self._size > self._limit:
                self._drop_oldest()
            return self._fresh

    def complete_files(self) -> list[Path]:
        """The files that nobody writes to, oldest first: posts from now on go to new ones."""
        with self._lock:
            self._open.clear()
            self._fresh = 0
            return self._oldest_first()

    def remove(self, file: Path) -> None:
        with self._lock:
            self._remove(file)

    def _new_file(self, session: str) -> Path:
        # A clock may jump back to a time that it had before: the rest of the name is random.
        name = f"{session}~{time.time_ns()}-{secrets.token_hex(4)}.jsonl"
        self._open[session] = file = self._directory / name
        return file

    def _oldest_first(self) -> list[Path]:
        return sorted(self._directory.glob("*~*.jsonl"), key=lambda one: one.name.partition("~")[2])

    def _drop_oldest(self) -> None:
        for one in self._oldest_first():
            if self._size <= self._limit:
                return
            if one not in self._open.values():
                self._on_drop(self._remove(one))

    def _remove(self, file: Path) -> int:
        try:
            size = file.stat().st_size
            file.unlink()
        except FileNotFoundError:
            return 0
        self._size -= size
        return size
