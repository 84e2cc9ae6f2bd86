"""Appends to a file of lines, all of a line or nothing of it."""

from __future__ import annotations

import os
from pathlib import Path


def append_line(file: Path, line: bytes) -> int:
    """The size of the file after it. Raises OSError, such as for a full disk, and leaves no half line behind."""
    with file.open("ab", buffering=0) as lines:
        before = lines.tell()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(lines.fileno(), rest) :]
        except OSError:
            os.ftruncate(lines.fileno(), before)
            raise
        return before + len(line)
