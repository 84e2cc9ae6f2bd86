"""Suffixes of generated names, derived from a hash: the same input gives the same name.

Planners are pure: they derive a suffix from the snapshot's seed instead of drawing a random one.
"""

from __future__ import annotations

import hashlib

from manta.api.names import SUFFIX_ALPHABET, SUFFIX_LENGTH


def suffix(*parts: object) -> str:
    """Five characters of Kubernetes' alphabet for generated names."""
    text = "/".join(str(part) for part in parts)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    letters = []
    for _ in range(SUFFIX_LENGTH):
        number, at = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[at])
    return "".join(letters)
