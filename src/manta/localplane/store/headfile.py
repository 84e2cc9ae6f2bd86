"""The head file beside the journal: which revision was acknowledged last.

SQLite itself cannot say that its write-ahead log was cut short or is gone: it opens the state before.
The head file is written after every commit, without a sync, so that a start can tell.
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
    """Which start of the machine wrote this: writes without a sync end with it."""
    clean: bool = False
    """Nothing was on its way to the disk any more."""


def boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def head_path(journal: Path) -> Path:
    return journal.with_suffix(".head")


def read_head(journal: Path) -> Head | None:
    """None when there is none, or none that can be read: the journal then speaks for itself."""
    try:
        text, _, checksum = head_path(journal).read_bytes().rstrip().rpartition(b" ")
        if int(checksum) != crc32(text):
            return None
        return msgspec.json.decode(text, type=Head)
    except (OSError, ValueError):
        return None


class HeadFile:
    """Writes the head of one journal. A disk that refuses it is reported once: the head is then
    older than the journal, which is allowed."""

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
