"""What a guard is: the few words of our code without which a known bug of KubeRay would be ours."""

from __future__ import annotations

from dataclasses import dataclass

Cut = tuple[str, str, str]
"""A file below src/manta, words that occur in it once, and what stands there without the guard."""


@dataclass(frozen=True, slots=True)
class Guard:
    number: int
    bug: str
    """In a few words, as the catalogue of KubeRay's bugs has it."""
    guard: str
    """What keeps us from it."""
    cuts: tuple[Cut, ...]
    """How to take the guard away."""
    real: bool = False
    """Only real Ray shows it: the test is one of tests/e2e."""
    seen: str = ""
    """With real Ray: when somebody took the guard away and saw the test fail."""


def guard(number: int, bug: str, why: str, *cuts: Cut, real: bool = False, seen: str = "") -> Guard:
    return Guard(number, bug, why, cuts, real, seen)
