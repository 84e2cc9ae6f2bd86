"""Random-looking ends of names that are not random: equal for equal questions.

A planner may not roll dice. It derives a suffix from the seed of its round, so that the same round
planned twice asks for the same names.
"""

from __future__ import annotations

import hashlib

from manta.api.ray.naming import SUFFIX_ALPHABET, SUFFIX_LENGTH


def suffix(*question: object) -> str:
    """Five characters of Kubernetes' alphabet for names."""
    text = "/".join(str(part) for part in question)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    letters = []
    for _ in range(SUFFIX_LENGTH):
        number, at = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[at])
    return "".join(letters)
