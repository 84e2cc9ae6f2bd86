"""The path of a value in an object.

A path is a linked pair (parent, segment), which is cheap to extend; it becomes text only for an error
message. A str is a field, an int is a list index, and a `MapKey` is a key of a map, which some messages
print in brackets.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Path: TypeAlias = tuple[Any, Any] | None


class MapKey(str):
    __slots__ = ()


def spell(path: Path) -> str:
    """Return the path as text, such as `spec.items[0].name`; '' for the root."""
    segments = []
    while path is not None:
        path, segment = path
        segments.append(segment)
    text = ""
    for segment in reversed(segments):
        if isinstance(segment, int | MapKey):
            text += f"[{segment}]"
        else:
            text += f".{segment}" if text else segment
    return text
