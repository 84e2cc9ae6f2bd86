"""Indexes of a cache: from a value of an object (its owner, its cluster) to the keys of such objects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from manta.api.meta import Key, ObjectMeta

log = logging.getLogger(__name__)

T = TypeVar("T")

IndexFunction = Callable[[T], Iterable[str]]
"""The values of an object in the index: none, one or several."""


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def by_namespace(one: HasMetadata) -> tuple[str, ...]:
    """Index function: the namespace."""
    return (one.metadata.namespace,)


def by_controller(one: HasMetadata) -> tuple[str, ...]:
    """Index function: the UID of the controlling owner."""
    owner = one.metadata.controller
    return (owner.uid,) if owner else ()


class Index(Generic[T]):
    """Keys in the order of insertion, so that equal histories give equal results."""

    def __init__(self, values: IndexFunction[T]) -> None:
        self._values = values
        self._keys: dict[str, dict[Key, None]] = {}
        self.failures = 0
        """Changes of objects that the function could not handle: they are missing."""

    def change(self, key: Key, old: T | None, new: T | None) -> None:
        before = self._values_of(key, old) or ()
        after = self._values_of(key, new)
        if after is None:
            self.failures += 1
            after = ()
        if before == after:
            return
        for value in before:
            if value not in after:
                self._drop(value, key)
        for value in after:
            self._keys.setdefault(value, {})[key] = None

    def _values_of(self, key: Key, one: T | None) -> tuple[str, ...] | None:
        """None for an object that the function cannot handle: it must not stop the watch."""
        try:
            return tuple(self._values(one)) if one is not None else ()
        except Exception:
            log.exception("%s is missing from an index", key)
            return None

    def keys(self, value: str) -> Iterable[Key]:
        return self._keys.get(value, ())

    def _drop(self, value: str, key: Key) -> None:
        bearers = self._keys.get(value)
        if bearers is None:
            return
        bearers.pop(key, None)
        if not bearers:
            del self._keys[value]
