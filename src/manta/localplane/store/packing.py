"""Packing, pure: the objects of one shelf resemble each other, so each is kept as what it differs.

The first object that a shelf packs becomes the pattern of all others there: a Pod of 5 KB then
takes a tenth of that. Unpacking costs microseconds and is done anew for every reader, so that
nothing grows by being read.
"""

from __future__ import annotations

import zlib
from typing import Final

_LEVEL: Final = 1
_ZLIB: Final = 15
_MEMORY: Final = 8
_BRACE: Final = ord("{")
_WINDOW: Final = 32 * 1024


def is_packed(text: bytes) -> bool:
    """A JSON object begins with a brace, a packed one never does."""
    return text[0] != _BRACE


class Packer:
    """Packs against one pattern, and only the same pattern unpacks."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern[-_WINDOW:]

    def pack(self, raw: bytes) -> bytes:
        packing = zlib.compressobj(
            _LEVEL, zlib.DEFLATED, _ZLIB, _MEMORY, zlib.Z_DEFAULT_STRATEGY, self._pattern
        )
        return packing.compress(raw) + packing.flush()

    def unpack(self, packed: bytes) -> bytes:
        return zlib.decompressobj(_ZLIB, self._pattern).decompress(packed)
