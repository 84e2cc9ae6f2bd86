"""Indexes of a cache: from a value that an object bears (its owner, its cluster) to its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from manta.api.meta import Key

T = TypeVar("T")

IndexFunction = Callable[[T], Iterable[str]]
"""The values under which an object is to be found; none, one or several."""


class Index(Generic[T]):
    """Keys in the order of their arrival, so that two equal histories give equal answers."""

    def __init__(self, values: IndexFunction[T]) -> None:
        self._values = values
        self._keys: dict[str, dict[Key, None]] = {}

    def change(self, key: Key, old: T | None, new: T | None) -> None:
        before = tuple(self._values(old)) if old is not None else ()
        after = tuple(self._values(new)) if new is not None else ()
        if before == after:
            return
        for value in before:
            if value not in after:
                self._drop(value, key)
        for value in after:
            self._keys.setdefault(value, {})[key] = None

    def keys(self, value: str) -> Iterable[Key]:
        return self._keys.get(value, ())

    def _drop(self, value: str, key: Key) -> None:
        bearers = self._keys.get(value)
        if bearers is None:
            return
        bearers.pop(key, None)
        if not bearers:
            del self._keys[value]
