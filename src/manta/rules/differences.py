"""Differences between two specs, field by field.

List items with a name (`workers` of workerGroupSpecs, `ray-head` of containers) are compared by name, so that
inserting a group is one difference and not one per group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manta.api.quantity import Quantity

_NAMES = ("groupName", "name")
_LONGEST_VALUE = 60
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Difference:
    field: str
    """`spec.workerGroupSpecs[workers].replicas`: a named item by its name, another by its index."""
    words: str
    """`2 -> 3`, `added: "x"`, `removed (was "x")`."""

    def __str__(self) -> str:
        return f"{self.field}: {self.words}"


def differences(before: Any, after: Any, field: str = "spec") -> tuple[Difference, ...]:
    """In the order of the fields; empty if both are equal."""
    return tuple(_compare(field, before, after))


def contradictions(before: Any, after: Any, field: str = "spec") -> tuple[Difference, ...]:
    """Only fields that both have, with different meaning.

    Operators add defaults, drop fields and rewrite quantities (`1000m` for `1`) when they copy a spec: those are
    not edits by a user.
    """
    found = _compare(field, before, after, absent_counts=False)
    return tuple(found)


def _compare(
    field: str, before: Any, after: Any, *, absent_counts: bool = True
) -> Iterator[Difference]:
    if before == after:
        return
    if not absent_counts and (_is_absent(before, after) or _is_same_quantity(before, after)):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in (*before, *(key for key in after if key not in before)):
            old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
            yield from _compare(f"{field}.{key}", old, new, absent_counts=absent_counts)
    elif (pairs := _paired(before, after)) is not None:
        for name, old, new in pairs:
            yield from _compare(f"{field}[{name}]", old, new, absent_counts=absent_counts)
    else:
        yield Difference(field, _words(before, after))


def _is_absent(before: Any, after: Any) -> bool:
    """Whether one side lacks the field, or has an empty value."""
    return any(one is _ABSENT or one in (None, "", [], {}, ()) for one in (before, after))


def _is_same_quantity(before: Any, after: Any) -> bool:
    if isinstance(before, bool) or isinstance(after, bool):
        return False
    try:
        return Quantity.parse(str(before)) == Quantity.parse(str(after))
    except ValueError:
        return False


def _paired(before: Any, after: Any) -> list[tuple[str, Any, Any]] | None:
    """Pairs of items of two lists; None unless both are lists of objects."""
    if not _is_list_of_objects(before) or not _is_list_of_objects(after):
        return None
    old, new = _by_name(before), _by_name(after)
    if old is None or new is None:
        old = {str(index): item for index, item in enumerate(before)}
        new = {str(index): item for index, item in enumerate(after)}
    names = (*old, *(name for name in new if name not in old))
    return [(name, old.get(name, _ABSENT), new.get(name, _ABSENT)) for name in names]


def _is_list_of_objects(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and bool(value) and all(isinstance(item, Mapping) for item in value)


def _by_name(items: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    for key in _NAMES:
        named = {str(item[key]): item for item in items if item.get(key)}
        if len(named) == len(items):
            return named
    return None


def _words(before: Any, after: Any) -> str:
    if before is _ABSENT:
        return f"added: {_short(after)}"
    if after is _ABSENT:
        return f"removed (was {_short(before)})"
    return f"{_short(before)} -> {_short(after)}"


def _short(value: Any) -> str:
    """As JSON, the way users write it: `false`, not Python's `False`."""
    is_text = isinstance(value, str)
    text = f'"{value}"' if is_text else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
