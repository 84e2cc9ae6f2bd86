"""One thing that is wrong with an object: where, what was found there, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_LONGEST_VALUE = 80
_MAX_IN_SENTENCE = 20
"""A condition's message holds at most 32 KiB."""


@dataclass(frozen=True, slots=True)
class Violation:
    field: str
    """The path, as the user writes it: `spec.workerGroupSpecs[1].minReplicas`."""
    value: Any
    message: str
    """What is wrong and what would be right."""

    def __str__(self) -> str:
        value = _as_written(self.value)
        if len(value) > _LONGEST_VALUE:
            value = f"{value[:_LONGEST_VALUE]}..."
        return f"{self.field}: {value}: {self.message}"


def _as_written(value: Any) -> str:
    """As in YAML, which is what the user wrote."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def sentence(violations: Iterable[Violation]) -> str:
    """All of them in one line, or the first ones and how many more there are."""
    found = list(violations)
    shown = "; ".join(str(violation) for violation in found[:_MAX_IN_SENTENCE])
    more = len(found) - _MAX_IN_SENTENCE
    return f"{shown}; and {more} more" if more > 0 else shown
