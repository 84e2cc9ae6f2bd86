"""The head file beside the journal: the last acknowledged revision.

SQLite does not notice that its write-ahead log was truncated or deleted: it opens the older state. The
head file is written after every commit, without a sync, so that the next start notices it.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import msgspec

log = logging.getLogger(__name__)

_LENGTH = 160
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Head:
    store: int
    """The identity of the journal."""
    revision: int
    boot: str = ""
    """The boot of the machine that wrote this; unsynced writes do not survive it."""
    clean: bool = False
    """The journal was closed, and everything is synced."""


def boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def head_path(journal: Path) -> Path:
    return journal.with_suffix(".head")


def read_head(journal: Path) -> Head | None:
    """Return the head; None if the file is missing or damaged."""
    try:
        text, _, checksum = head_path(journal).read_bytes().rstrip().rpartition(b" ")
        if int(checksum) != crc32(text):
            return None
        return msgspec.json.decode(text, type=Head)
    except (OSError, ValueError):
        return None


class HeadFile:
    """Writes the head of one journal. A failure is logged once: an older head is allowed."""

    def __init__(self, journal: Path, store: int) -> None:
        self._head = Head(store, 0, boot_id())
        self._warned = False
        self._descriptor = os.open(head_path(journal), os.O_RDWR | os.O_CREAT, 0o600)

    def write(self, revision: int, *, clean: bool = False) -> None:
        self._head = replace(self._head, revision=revision, clean=clean)
        text = msgspec.json.encode(self._head)
        line = text + b" %d" % crc32(text)
        try:
            os.pwrite(self._descriptor, line.ljust(_LENGTH - 1) + b"\n", 0)
        except OSError as error:
            if not self._warned:
                self._warned = True
                log.warning("the head file of the journal cannot be written: %s", error)

    def close(self) -> None:
        os.close(self._descriptor)
