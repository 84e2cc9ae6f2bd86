"""Append-only files of bounded total size: starting a new file deletes the oldest ones.

Each `append` is one system call: what it wrote survives a crash of the process. An incomplete line can only
be the last of its file, because each process starts a new file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

PATTERN: Final = "recording-*.jsonl"
SEGMENT_COUNT: Final = 8
"""The approximate number of files in a full ring."""
MIN_BYTES: Final = 1024 * 1024


class Ring:
    """Writes to the newest file. `header` returns the first line of a new one."""

    def __init__(self, folder: Path, max_bytes: int, header: Callable[[], bytes]) -> None:
        self._folder = folder
        self._max_bytes = max(max_bytes, MIN_BYTES)
        self._segment_bytes = self._max_bytes // SEGMENT_COUNT
        self._header = header
        self._file: int | None = None
        self._size = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def needs_new_file(self) -> bool:
        """Whether no file is open, or the open one is full: call `start_file` before the next `append`."""
        return self._file is None or self._size >= self._segment_bytes

    def start_file(self) -> None:
        """Close the current file, delete the oldest ones and open a new one. Raises OSError."""
        self.close()
        present = segments(self._folder)
        last = _number(present[-1]) if present else 0
        self._delete_oldest(present)
        path = self._folder / f"recording-{last + 1:08d}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        self._size = 0
        self.append([self._header()])

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines to the open file. Raises OSError if there is none, or if not all bytes could be
        written: after a partial write the file is closed."""
        if self._file is None:
            raise OSError("the recording has no open file")
        body = b"".join(lines)
        written = os.write(self._file, body)
        self._size += written
        if written < len(body):
            self.close()
            raise OSError(f"only {written} of {len(body)} bytes could be written")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _delete_oldest(self, present: Sequence[Path]) -> None:
        """Leave free the size of two files: one for the new file, one for the record that makes it too large."""
        limit = self._max_bytes - 2 * self._segment_bytes
        sizes = {path: path.stat().st_size for path in present}
        for path in present:
            if sum(sizes.values()) <= limit:
                break
            path.unlink(missing_ok=True)
            del sizes[path]


def segments(folder: Path) -> list[Path]:
    """The files of a recording, oldest first."""
    return sorted(path for path in folder.glob(PATTERN) if _number(path))


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("recording-")
    return int(digits) if digits.isdecimal() else 0
