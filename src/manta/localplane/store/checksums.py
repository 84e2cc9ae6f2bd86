"""Checksums of the journal: of every row, and of all rows of a table. Pure.

They detect damage (a failing disk, a truncated file, a mix of files), not forgery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

SUM = "sum"
"""The name of the fact with the checksum of the other facts."""


def object_sum(resource: str, key: str, revision: int, epoch: int, raw: bytes) -> int:
    return crc32(raw, crc32(f"{resource}\0{key}\0{revision}\0{epoch}\0".encode()))


def change_sum(row: Sequence[Any]) -> int:
    """Return the checksum of a row of `changes`."""
    revision, resource, key, kind, epoch, raw, previous, previous_revision = row
    place = f"{revision}\0{resource}\0{key}\0{kind}\0{epoch}\0{previous_revision}\0{len(raw)}\0"
    return crc32(previous or b"", crc32(raw, crc32(place.encode())))


def facts_sum(facts: Mapping[str, int]) -> int:
    text = "\0".join(f"{name}={facts[name]}" for name in sorted(facts) if name != SUM)
    return crc32(text.encode())


class Tally:
    """The number of rows of a table and the XOR of their checksums: detects lost rows."""

    __slots__ = ("count", "sum")

    def __init__(self, count: int = 0, total: int = 0) -> None:
        self.count = count
        self.sum = total

    def add(self, checksum: int) -> None:
        self.count += 1
        self.sum ^= checksum

    def remove(self, checksum: int) -> None:
        self.count -= 1
        self.sum ^= checksum

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and (self.count, self.sum) == (other.count, other.sum)

    __hash__ = None  # type: ignore[assignment]  # it changes
