"""The cached objects of one resource: frozen views by key, with indexes.

A cache is updated by the watch and by live reads, and never goes back in time: it ignores objects older than
the cached one, and watch events of an object that a live read has found deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from manta.api.meta import Key, ObjectMeta, Uid
from manta.runtime.index import Index, IndexFunction
from manta.runtime.versions import is_newer, is_older


class Named(Protocol):
    """Any decoded object: it has metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Named)


class Change(NamedTuple, Generic[T]):
    """A change of one object. `old` None: created; `new` None: deleted."""

    old: T | None
    new: T | None

    @property
    def key(self) -> Key:
        some = self.new if self.new is not None else self.old
        assert some is not None
        return some.metadata.key


class Cache(Generic[T]):
    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, Index[T]] = {}
        self._gone: dict[
            Key, Uid
        ] = {}  # deleted according to a live read, but not yet to the watch
        for name, values in (indexes or {}).items():
            self.add_index(name, values)

    def add_index(self, name: str, values: IndexFunction[T]) -> None:
        index: Index[T] = Index(values)
        for key, one in self._objects.items():
            index.change(key, None, one)
        self._indexes[name] = index

    @property
    def index_failures(self) -> int:
        return sum(index.failures for index in self._indexes.values())

    # ── reading ──────────────────────────────────────────────────────────────────────────

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def all(self) -> tuple[T, ...]:
        return tuple(self._objects.values())

    def by(self, index: str, value: str) -> tuple[T, ...]:
        return tuple(self._objects[key] for key in self._indexes[index].keys(value))

    def __len__(self) -> int:
        return len(self._objects)

    def keys_in(self, namespace: str) -> Iterator[Key]:
        """The keys of one namespace; of all namespaces for ''."""
        if not namespace:
            return iter(tuple(self._objects))
        return iter(tuple(key for key in self._objects if key.namespace == namespace))

    # ── updating ─────────────────────────────────────────────────────────────────────────

    def put(self, one: T) -> Change[T] | None:
        """Store an object; None if the cache already has this version or a newer one."""
        key = one.metadata.key
        old = self._objects.get(key)
        if old is not None and not is_older(
            old.metadata.resource_version, one.metadata.resource_version
        ):
            return None
        if self._gone.get(key) == one.metadata.uid:
            return None
        self._gone.pop(key, None)
        return self._set(key, one)

    def remove(self, key: Key, uid: Uid | None = None) -> Change[T] | None:
        """Remove an object; with a UID, only that one, never its successor of the same name."""
        if not uid or self._gone.get(key) == uid:
            self._gone.pop(key, None)
        old = self._objects.get(key)
        if old is None or (uid and old.metadata.uid != uid):
            return None
        return self._set(key, None)

    def tombstone(self, key: Key, uid: Uid) -> Change[T] | None:
        """Remove an object that a live read found deleted, and ignore older events of it."""
        change = self.remove(key, uid)
        self._gone[key] = uid
        return change

    def replace(
        self,
        objects: Iterable[T],
        listed_at: str,
        namespace: str = "",
        *,
        tombstone: bool = False,
        keep: Collection[Key] = (),
    ) -> list[Change[T]]:
        """Store a full list: objects missing from it were deleted in the meantime.

        An object newer than the list, from a live read, is kept. `tombstone`: the list is itself a live read,
        so the watch may still send older events. `keep`: these were listed too, but could not be decoded.
        """
        listed = {one.metadata.key: one for one in objects}
        unlisted = [
            self._objects[key].metadata
            for key in self.keys_in(namespace)
            if key not in listed and key not in keep
        ]
        missing = [meta for meta in unlisted if not is_newer(meta.resource_version, listed_at)]
        gone = [
            self.tombstone(meta.key, meta.uid) if tombstone else self.remove(meta.key)
            for meta in missing
        ]
        if not tombstone:
            self._forget_gone(listed, namespace)
        there = [self.put(one) for one in listed.values()]
        return [change for change in (*gone, *there) if change is not None]

    def forget(self, namespace: str = "") -> list[Change[T]]:
        """Drop all objects and tombstones of one namespace, or of all."""
        self._forget_gone({}, namespace)
        return [self._set(key, None) for key in self.keys_in(namespace)]

    def _forget_gone(self, listed: Mapping[Key, T], namespace: str) -> None:
        """Drop tombstones: the watch starts again from this list, and sends nothing older."""
        for key in [key for key in self._gone if key not in listed]:
            if not namespace or key.namespace == namespace:
                del self._gone[key]

    def _set(self, key: Key, new: T | None) -> Change[T]:
        old = self._objects.get(key)
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        for index in self._indexes.values():
            index.change(key, old, new)
        return Change(old, new)
