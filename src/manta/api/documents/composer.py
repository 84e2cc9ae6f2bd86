"""Builds JSON values from YAML parse events, with an explicit stack: no text can exhaust the C stack.

PyYAML's loaders compose recursively, also in C, where 40,000 brackets end the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from manta.api.documents import scalars
from manta.api.documents.limits import DocumentError, Limits

_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_NO_KEY: Final = object()
_MERGE: Final = object()


@dataclass(slots=True)
class _Frame:
    """An open list or map. `merged` are the keys that come from `<<`."""

    value: Any
    anchor: str | None = None
    nodes: int = 0
    size: int = 0
    height: int = 1
    key: Any = _NO_KEY
    merged: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Anchored:
    """The value of an anchor, and the cost of another copy."""

    value: Any
    nodes: int
    size: int
    height: int


class Composer:
    """The documents of one event stream. `duplicates` collects duplicate keys; None refuses them."""

    def __init__(self, limits: Limits, duplicates: list[str] | None = None) -> None:
        self._limits = limits
        self._duplicates = duplicates
        self._nodes = 0
        self._size = 0
        self._line = 0
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._root: Any = None

    def documents(self, events: Iterable[Any]) -> Iterator[Any]:
        """Yield each document of the stream. Raises DocumentError."""
        steps = {
            "ScalarEvent": self._scalar,
            "MappingStartEvent": self._open_map,
            "SequenceStartEvent": self._open_list,
            "MappingEndEvent": self._close,
            "SequenceEndEvent": self._close,
            "AliasEvent": self._alias,
        }
        try:
            for event in events:
                name = type(event).__name__
                step = steps.get(name)
                if step is not None:
                    self._line = event.start_mark.line + 1
                    step(event)
                elif name == "DocumentStartEvent":
                    self._anchors, self._root = {}, None
                elif name == "DocumentEndEvent":
                    yield self._root
        except DocumentError as error:
            raise DocumentError(f"line {self._line}: {error}") from None

    def _scalar(self, event: Any) -> None:
        text = event.value
        self._count(1, len(text))
        if event.tag is not None:
            value = scalars.tagged(event.tag, text)
        else:
            value = scalars.plain(text) if event.implicit[0] else text
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, 1, len(text), 0)
        if text == "<<" and (event.implicit[0] or event.tag == _MERGE_TAG) and self._at_key():
            self._stack[-1].key = _MERGE
        else:
            self._place(value)

    def _open_map(self, event: Any) -> None:
        self._open({}, event)

    def _open_list(self, event: Any) -> None:
        self._open([], event)

    def _open(self, value: Any, event: Any) -> None:
        if len(self._stack) >= self._limits.depth:
            raise DocumentError(_too_deep(self._limits))
        if self._at_key():
            raise DocumentError("a list or a map cannot be a map key: use text")
        if event.anchor:
            self._anchors[event.anchor] = None
        self._count(1, 1)
        self._stack.append(_Frame(value, event.anchor, self._nodes - 1, self._size - 1))

    def _close(self, _event: Any) -> None:
        frame = self._stack.pop()
        if frame.anchor:
            cost = self._nodes - frame.nodes, self._size - frame.size
            self._anchors[frame.anchor] = _Anchored(frame.value, *cost, frame.height)
        self._place(frame.value, frame.height)

    def _alias(self, event: Any) -> None:
        found = self._anchors.get(event.anchor, _NO_KEY)
        if found is _NO_KEY:
            raise DocumentError(f"unknown anchor '{event.anchor:.40}' referenced")
        if not isinstance(found, _Anchored):
            raise DocumentError(f"anchor '{event.anchor:.40}' value contains itself")
        if len(self._stack) + found.height > self._limits.depth:
            raise DocumentError(_too_deep(self._limits))
        self._count(found.nodes, found.size)
        if isinstance(found.value, list) and self._stack and self._stack[-1].key is _MERGE:
            raise DocumentError("map merge requires map or sequence of maps as the value")
        self._place(_copy(found.value), found.height)

    def _count(self, nodes: int, size: int) -> None:
        self._nodes += nodes
        self._size += size
        if self._nodes > self._limits.nodes:
            raise DocumentError(f"more than {self._limits.nodes} values (aliases expanded)")
        if self._size > self._limits.bytes:
            raise DocumentError(f"more than {self._limits.bytes} bytes (aliases expanded)")

    def _at_key(self) -> bool:
        frame = self._stack[-1] if self._stack else None
        return frame is not None and frame.key is _NO_KEY and type(frame.value) is dict

    def _place(self, value: Any, height: int = 0) -> None:
        """Add a finished value to its list or map."""
        if not self._stack:
            self._root = scalars.as_json(value)
            return
        frame = self._stack[-1]
        if height >= frame.height:
            frame.height = height + 1
        if type(frame.value) is list:
            frame.value.append(scalars.as_json(value))
        elif frame.key is _NO_KEY:
            frame.key = self._new_key(frame, value)
        elif frame.key is _MERGE:
            frame.key = _NO_KEY
            _merge(frame, value)
        else:
            frame.value[frame.key] = scalars.as_json(value)
            frame.key = _NO_KEY

    def _new_key(self, frame: _Frame, value: Any) -> str:
        key = scalars.key(value)
        if key in frame.merged:
            frame.merged.discard(key)
        elif key in frame.value:
            wrong = f'key "{key:.100}" already set in map'
            if self._duplicates is None:
                raise DocumentError(wrong)
            self._duplicates.append(f"line {self._line}: {wrong}")
        return key


def _merge(frame: _Frame, value: Any) -> None:
    """`<<`: of several maps the first wins; as in go-yaml v2, it also replaces keys before it."""
    several = value if type(value) is list else [value]
    if not all(type(one) is dict for one in several):
        raise DocumentError("map merge requires map or sequence of maps as the value")
    for one in reversed(several):
        frame.merged.update(one.keys() - frame.value.keys())
        frame.value.update(one)


def _copy(value: Any) -> Any:
    """A copy, so that two aliases do not share one object."""
    if type(value) is dict:
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if type(value) is list else value


def _too_deep(limits: Limits) -> str:
    return f"nested more than {limits.depth} levels deep"
