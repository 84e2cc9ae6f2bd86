"""The graph of owner references, by UID."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from manta.api.meta import ObjectMeta, Uid
from manta.api.resources import Resource

MAX_REMEMBERED_ABSENT = 10_000


class Entry(NamedTuple):
    """One object in the graph."""

    resource: Resource
    meta: ObjectMeta


class Graph:
    def __init__(self) -> None:
        self._entries: dict[Uid, Entry] = {}
        self._dependents: dict[Uid, dict[Uid, None]] = {}
        self._absent: OrderedDict[Uid, None] = OrderedDict()

    def get(self, uid: Uid) -> Entry | None:
        return self._entries.get(uid)

    def dependents(self, uid: Uid) -> tuple[Entry, ...]:
        return tuple(self._entries[one] for one in self._dependents.get(uid, ()))

    def dependent_uids(self, uid: Uid) -> tuple[Uid, ...]:
        return tuple(self._dependents.get(uid, ()))

    def put(self, resource: Resource, meta: ObjectMeta) -> None:
        old = self._entries.get(meta.uid)
        self._entries[meta.uid] = Entry(resource, meta)
        self._absent.pop(meta.uid, None)
        before = {ref.uid for ref in old.meta.owner_references} if old else set()
        after = {ref.uid for ref in meta.owner_references}
        for owner in before - after:
            self._unlink(owner, meta.uid)
        for owner in after - before:
            self._dependents.setdefault(owner, {})[meta.uid] = None

    def drop(self, uid: Uid) -> None:
        """The object is gone."""
        self.forget(uid)
        self.note_absent(uid)

    def forget(self, uid: Uid) -> None:
        """The object is no longer watched, which does not mean that it is gone."""
        old = self._entries.pop(uid, None)
        for ref in old.meta.owner_references if old else ():
            self._unlink(ref.uid, uid)

    def note_absent(self, uid: Uid) -> None:
        """Record that no object has this UID: UIDs are never reused."""
        self._absent[uid] = None
        while len(self._absent) > MAX_REMEMBERED_ABSENT:
            self._absent.popitem(last=False)

    def is_absent(self, uid: Uid) -> bool:
        return uid in self._absent

    def __len__(self) -> int:
        return len(self._entries)

    def _unlink(self, owner: Uid, dependent: Uid) -> None:
        of_owner = self._dependents.get(owner)
        if of_owner is None:
            return
        of_owner.pop(dependent, None)
        if not of_owner:
            del self._dependents[owner]
