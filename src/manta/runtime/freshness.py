"""Read your own writes: a key is not reconciled while a cache is older than our last write for it.

Every write is recorded with the resourceVersion in its response, every delete with the UID. A key is fresh
again when the watches have passed all of them. If a watch takes too long, the objects are read live and put
into the cache; no timeout counts as success. A write whose response was lost has no version: the object is
read live before the key is reconciled again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from manta.api.meta import Key, Uid
from manta.api.resources import Resource
from manta.kube.errors import Malformed, MantaError
from manta.runtime.backoff import Backoff
from manta.runtime.cache import Named
from manta.runtime.informer import Informer
from manta.runtime.versions import number

log = logging.getLogger(__name__)

LIVE_READ_AFTER = 5.0
"""Seconds that a watch may lag behind our own write before the object is read live."""

MAX_SINGLE_READS = 10
"""More pending objects than this are read with one list instead of one by one."""

LIVE_READ_BACKOFF = Backoff(base=0.25, cap=15.0)


class Owner(NamedTuple):
    """Who wrote: one key of one controller."""

    controller: str
    key: Key


class PendingWrite(NamedTuple):
    """One object whose last write the cache may not have."""

    resource: Resource
    key: Key
    version: int | None = None
    """Wait until the watch has passed this version. None: wait for the UID, or read live."""
    uid: Uid | None = None
    """Wait until this object is deleted, or marked for deletion."""
    unnamed: bool = False
    """The name is unknown (a lost response to generateName): read the whole namespace."""
    cache: int = 0
    """The cache that has not reached the version yet."""


@dataclass(slots=True)
class _OwnerState:
    """The pending writes of one owner, and the callbacks to call when there are none left."""

    pending: dict[PendingWrite, None] = field(default_factory=dict)
    waiters: list[Callable[[], None]] = field(default_factory=list)
    alarm: asyncio.TimerHandle | None = None
    reading: asyncio.Task[None] | None = None


class Freshness:
    def __init__(self, random: Random, *, live_read_after: float = LIVE_READ_AFTER) -> None:
        self._random = random
        self._live_read_after = live_read_after
        self._informers: dict[Resource, list[Informer[Any]]] = {}
        self._owners: dict[Owner, _OwnerState] = {}
        self._by_version: dict[tuple[int, str], list[tuple[int, int, Owner, PendingWrite]]] = {}
        self._by_object: dict[tuple[Resource, Key], dict[Owner, None]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def track(self, informer: Informer[Any]) -> None:
        """From now on, wait for writes to this resource in this informer."""
        self._informers.setdefault(informer.resource, []).append(informer)
        informer.add_progress_handler(lambda scope: self._passed(informer, scope))
        informer.add_handler(lambda old, new: self._changed(informer.resource, old, new))

    # ── recording ────────────────────────────────────────────────────────────────────────

    def note_write(
        self,
        owner: Owner,
        resource: Resource,
        key: Key,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Record that we created or patched this object, with the version in the response.

        `labels` of the written object, if known, decide which caches will have it.
        """
        version = number(resource_version)
        for informer in self._watching(resource, key, labels):
            scope = informer.scope_of(key)
            reached = informer.reached(scope) if scope is not None else None
            if version is not None and reached is not None and reached >= version:
                continue
            write = PendingWrite(resource, key, version, cache=id(informer))
            self._await_write(owner, write, at_once=version is None)
            if version is not None and scope is not None:
                self._count += 1
                heap = self._by_version.setdefault((id(informer), scope), [])
                heappush(heap, (version, self._count, owner, write))

    def note_delete(self, owner: Owner, resource: Resource, key: Key, uid: Uid) -> None:
        """Record that the server accepted the deletion of this object."""
        if any(self._still_shows(one, key, uid) for one in self._watching(resource, key, None)):
            self._await_write(owner, PendingWrite(resource, key, uid=uid))

    def note_unknown(
        self, owner: Owner, resource: Resource, key: Key, *, named: bool = True
    ) -> None:
        """Record a write that may or may not have happened: the object is read live at once.

        `named` False: `key` has no full name (generateName), so the whole namespace is read.
        """
        if any(True for _ in self._watching(resource, key, None)):
            self._await_write(owner, PendingWrite(resource, key, unnamed=not named), at_once=True)

    def note_stale(self, owner: Owner, api_version: str, kind: str, key: Key) -> None:
        """Record that the cached state of this object may be old, so that it is read live at once. Kinds that no
        informer watches are ignored."""
        for resource in self._informers:
            if (resource.api_version, resource.kind) == (api_version, kind):
                self.note_unknown(owner, resource, key)

    # ── querying ─────────────────────────────────────────────────────────────────────────

    def is_fresh(self, owner: Owner) -> bool:
        return owner not in self._owners

    def when_fresh(self, owner: Owner, callback: Callable[[], None]) -> None:
        """Call `callback` once, as soon as the owner is fresh; now, if it is."""
        state = self._owners.get(owner)
        if state is None:
            callback()
        elif callback not in state.waiters:
            state.waiters.append(callback)

    def __len__(self) -> int:
        return len(self._owners)

    def close(self) -> None:
        for state in self._owners.values():
            if state.alarm:
                state.alarm.cancel()
        for task in self._tasks:
            task.cancel()

    # ── settling ─────────────────────────────────────────────────────────────────────────

    def _watching(
        self, resource: Resource, key: Key, labels: Mapping[str, str] | None
    ) -> list[Informer[Any]]:
        """The informers whose selection includes this object."""
        return [
            one
            for one in self._informers.get(resource, ())
            if one.scope_of(key) is not None
            and (labels is None or one.selects(labels) or one.get(key) is not None)
        ]

    @staticmethod
    def _still_shows(informer: Informer[Any], key: Key, uid: Uid) -> bool:
        held = informer.get(key)
        if held is None or held.metadata.uid != uid:
            return False
        return held.metadata.deletion_timestamp is None

    def _await_write(self, owner: Owner, write: PendingWrite, *, at_once: bool = False) -> None:
        state = self._owners.setdefault(owner, _OwnerState())
        state.pending[write] = None
        self._by_object.setdefault((write.resource, write.key), {})[owner] = None
        if at_once:
            self._read_live(owner)
        elif state.alarm is None:
            self._set_alarm(owner, state)

    def _set_alarm(self, owner: Owner, state: _OwnerState) -> None:
        loop = asyncio.get_running_loop()
        state.alarm = loop.call_later(self._live_read_after, self._read_live, owner)

    def _passed(self, informer: Informer[Any], scope: str) -> None:
        """A watch has advanced: the cache has all writes up to its version."""
        heap = self._by_version.get((id(informer), scope))
        reached = informer.reached(scope)
        while heap and reached is not None and heap[0][0] <= reached:
            _, _, owner, write = heappop(heap)
            self._settle(owner, write)

    def _changed(self, resource: Resource, old: Named | None, new: Named | None) -> None:
        """One object changed in a cache: settle the deletes that it completes."""
        some = new if new is not None else old
        if some is None or not self._by_object:
            return
        key = some.metadata.key
        for owner in tuple(self._by_object.get((resource, key), ())):
            for write in tuple(self._owners[owner].pending):
                if write.uid and write.resource == resource and write.key == key:
                    watching = self._watching(resource, key, None)
                    if not any(self._still_shows(one, key, write.uid) for one in watching):
                        self._settle(owner, write)

    def _settle(self, owner: Owner, write: PendingWrite) -> None:
        state = self._owners.get(owner)
        if state is None or write not in state.pending:
            return
        del state.pending[write]
        if not any(one[:2] == write[:2] for one in state.pending):
            self._drop_object(owner, write)
        if state.pending:
            return
        del self._owners[owner]
        if state.alarm:
            state.alarm.cancel()
        for waiter in state.waiters:
            waiter()

    def _drop_object(self, owner: Owner, write: PendingWrite) -> None:
        owners = self._by_object.get((write.resource, write.key))
        if owners is not None:
            owners.pop(owner, None)
            if not owners:
                del self._by_object[write.resource, write.key]

    # ── live reads ───────────────────────────────────────────────────────────────────────

    def _read_live(self, owner: Owner) -> None:
        state = self._owners.get(owner)
        if state is None or (state.reading and not state.reading.done()):
            return
        state.reading = asyncio.get_running_loop().create_task(self._read_all(owner))
        self._tasks.add(state.reading)
        state.reading.add_done_callback(self._tasks.discard)

    async def _read_all(self, owner: Owner) -> None:
        """Read the owner's pending objects until none is left."""
        failures = 0
        while (state := self._owners.get(owner)) and state.pending:
            write = next(iter(state.pending))
            alike = [one for one in state.pending if _in_one_list(one, write)]
            try:
                if write.unnamed or len(alike) > MAX_SINGLE_READS:
                    await self._read_namespace(write)
                else:
                    alike = [write]
                    await self._read_one(write)
            except MantaError as error:
                failures += 1
                log.warning("cannot read %s %s live: %s", write.resource.kind, write.key, error)
                await asyncio.sleep(LIVE_READ_BACKOFF.delay(failures, self._random))
            else:
                for one in alike:
                    self._settle(owner, one)

    async def _read_one(self, write: PendingWrite) -> None:
        for informer in self._watching(write.resource, write.key, None):
            try:
                await informer.read(write.key, write.uid)
            except Malformed as error:
                # The object cannot be decoded, now or later: its owner need not wait.
                informer.on_readability(write.key, str(error))

    async def _read_namespace(self, write: PendingWrite) -> None:
        for informer in self._watching(write.resource, write.key, None):
            await informer.read_namespace(write.key.namespace)


def _in_one_list(one: PendingWrite, other: PendingWrite) -> bool:
    return one.resource == other.resource and one.key.namespace == other.key.namespace
