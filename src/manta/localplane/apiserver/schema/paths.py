"""Where a value sits in an object.

While an object is walked a path is a linked pair (parent, segment), which costs next to nothing;
it is spelled out only when something is wrong. A name is a field, an int is a list index, and a
`MapKey` is a key of a map, which some messages print in brackets.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Path: TypeAlias = tuple[Any, Any] | None


class MapKey(str):
    __slots__ = ()


def spell(path: Path) -> str:
    """`spec.items[0].name`; the root is the empty string."""
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
