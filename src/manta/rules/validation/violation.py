"""One thing that is wrong with an object: where, what was found there, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_LONGEST_VALUE = 80


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
    return "; ".join(str(violation) for violation in violations)
