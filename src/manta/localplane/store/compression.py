"""Compression of stored objects, pure: objects of one resource resemble each other.

The first object that a resource table compresses becomes the zlib dictionary of all others there; a
Pod of 5 KB then takes a tenth of that. Every reader decompresses again (microseconds), so that
reading does not make the store grow.
"""

from __future__ import annotations

import zlib
from typing import Final

_LEVEL: Final = 1
_WINDOW_BITS: Final = 15
_MEMORY_LEVEL: Final = 8
_BRACE: Final = ord("{")
_WINDOW_BYTES: Final = 32 * 1024


def is_compressed(text: bytes) -> bool:
    """A JSON object begins with a brace, a compressed one never does."""
    return text[0] != _BRACE


class Compressor:
    """Compresses with one dictionary. Only a compressor with the same dictionary can decompress."""

    __slots__ = ("_dictionary",)

    def __init__(self, dictionary: bytes) -> None:
        self._dictionary = dictionary[-_WINDOW_BYTES:]

    def compress(self, raw: bytes) -> bytes:
        stream = zlib.compressobj(
            _LEVEL,
            zlib.DEFLATED,
            _WINDOW_BITS,
            _MEMORY_LEVEL,
            zlib.Z_DEFAULT_STRATEGY,
            self._dictionary,
        )
        return stream.compress(raw) + stream.flush()

    def decompress(self, compressed: bytes) -> bytes:
        return zlib.decompressobj(_WINDOW_BITS, self._dictionary).decompress(compressed)
