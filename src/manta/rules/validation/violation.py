"""A violation: the field, its value, and what would be valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from manta.api.names import is_dns1035_label

_LONGEST_VALUE = 80
_MAX_IN_SENTENCE = 20
"""A condition's message has at most 32 KiB."""


@dataclass(frozen=True, slots=True)
class Violation:
    field: str
    """The path: `spec.workerGroupSpecs[1].minReplicas`."""
    value: Any
    message: str
    """What is wrong and what to do."""

    def __str__(self) -> str:
        value = _as_written(self.value)
        if len(value) > _LONGEST_VALUE:
            value = f"{value[:_LONGEST_VALUE]}..."
        return f"{self.field}: {value}: {self.message}"


def _as_written(value: Any) -> str:
    """The value in YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def length_violations(name: str, longest: int) -> Iterator[Violation]:
    if len(name) > longest:
        cure = f"has {len(name)} characters; shorten it to at most {longest}"
        yield Violation("metadata.name", name, cure)


def name_violations(name: str, longest: int) -> Iterator[Violation]:
    """A name from which names of Services and Pods are derived: its length and its letters."""
    yield from length_violations(name, longest)
    if not is_dns1035_label(name):
        cure = "must begin with a letter and hold only lower-case letters, digits and dashes"
        yield Violation("metadata.name", name, cure)


def violations_message(violations: Iterable[Violation]) -> str:
    """All violations in one line; of many, the first ones and the number of the others."""
    found = list(violations)
    shown = "; ".join(str(violation) for violation in found[:_MAX_IN_SENTENCE])
    more = len(found) - _MAX_IN_SENTENCE
    return f"{shown}; and {more} more" if more > 0 else shown
