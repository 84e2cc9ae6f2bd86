"""Read your own writes: a key is not looked at while a cache is older than what we wrote for it.

Every write is noted with the resourceVersion that the server gave it, every delete with the UID
that it was meant for. A key is fresh again when the watches have passed them all. When a watch
stays silent too long, the objects in question are read live and put into the cache: never is it
guessed, and no amount of waiting turns into "it probably worked". A write whose reply was lost
has no version; it is read live before the key may run again.
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
"""Seconds that a watch may lag behind our own write before we ask the server itself."""

MANY = 10
"""Of more doubtful objects than this, one list is asked for instead of each by its name."""

LIVE_READ_BACKOFF = Backoff(base=0.25, cap=15.0)


class Owner(NamedTuple):
    """On whose behalf something was written: one key of one controller."""

    controller: str
    key: Key


class Doubt(NamedTuple):
    """One object that the cache may not know as we left it."""

    resource: Resource
    key: Key
    version: int | None = None
    """Wait for this version to pass. None: only the UID, or a live read, can tell."""
    uid: Uid | None = None
    """Wait for this one to be gone, or marked for deletion."""
    wholesale: bool = False
    """The name is not known (a lost reply to generateName): read the namespace."""
    cache: int = 0
    """Which of several caches of this resource has yet to show the version."""


@dataclass(slots=True)
class _Ledger:
    """What one owner is unsure of, and who wants to know when it is settled."""

    doubts: dict[Doubt, None] = field(default_factory=dict)
    waiters: list[Callable[[], None]] = field(default_factory=list)
    alarm: asyncio.TimerHandle | None = None
    reading: asyncio.Task[None] | None = None


class Freshness:
    def __init__(self, random: Random, *, live_read_after: float = LIVE_READ_AFTER) -> None:
        self._random = random
        self._live_read_after = live_read_after
        self._informers: dict[Resource, list[Informer[Any]]] = {}
        self._ledgers: dict[Owner, _Ledger] = {}
        self._by_version: dict[tuple[int, str], list[tuple[int, int, Owner, Doubt]]] = {}
        self._by_object: dict[tuple[Resource, Key], dict[Owner, None]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.live_reads = 0

    def track(self, informer: Informer[Any]) -> None:
        """From now on, writes to this resource are waited for in this informer."""
        self._informers.setdefault(informer.resource, []).append(informer)
        informer.add_progress_handler(lambda scope: self._passed(informer, scope))
        informer.add_handler(lambda old, new: self._changed(informer.resource, old, new))

    # ── noting ───────────────────────────────────────────────────────────────────────────

    def note_write(
        self,
        owner: Owner,
        resource: Resource,
        key: Key,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """We created or patched this object; the server answered with this version of it.

        `labels` of the written object, when known, tell which caches will ever show it.
        """
        version = number(resource_version)
        for informer in self._watching(resource, key, labels):
            scope = informer.scope_of(key)
            reached = informer.reached(scope) if scope is not None else None
            if version is not None and reached is not None and reached >= version:
                continue
            doubt = Doubt(resource, key, version, cache=id(informer))
            self._doubt(owner, doubt, at_once=version is None)
            if version is not None and scope is not None:
                self._count += 1
                heap = self._by_version.setdefault((id(informer), scope), [])
                heappush(heap, (version, self._count, owner, doubt))

    def note_delete(self, owner: Owner, resource: Resource, key: Key, uid: Uid) -> None:
        """The server accepted to delete this one."""
        if any(self._still_shows(one, key, uid) for one in self._watching(resource, key, None)):
            self._doubt(owner, Doubt(resource, key, uid=uid))

    def note_unknown(
        self, owner: Owner, resource: Resource, key: Key, *, named: bool = True
    ) -> None:
        """A write may or may not have happened: look at the object itself before going on.

        `named` False: `key` holds no full name (generateName); the whole namespace is read.
        """
        if any(True for _ in self._watching(resource, key, None)):
            self._doubt(owner, Doubt(resource, key, wholesale=not named), at_once=True)

    # ── asking ───────────────────────────────────────────────────────────────────────────

    def is_fresh(self, owner: Owner) -> bool:
        return owner not in self._ledgers

    def when_fresh(self, owner: Owner, callback: Callable[[], None]) -> None:
        """Call back once, as soon as the owner is fresh; now, if it is."""
        ledger = self._ledgers.get(owner)
        if ledger is None:
            callback()
        elif callback not in ledger.waiters:
            ledger.waiters.append(callback)

    def __len__(self) -> int:
        return len(self._ledgers)

    def close(self) -> None:
        for ledger in self._ledgers.values():
            if ledger.alarm:
                ledger.alarm.cancel()
        for task in self._tasks:
            task.cancel()

    # ── settling ─────────────────────────────────────────────────────────────────────────

    def _watching(
        self, resource: Resource, key: Key, labels: Mapping[str, str] | None
    ) -> list[Informer[Any]]:
        """The informers that would show this object."""
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

    def _doubt(self, owner: Owner, doubt: Doubt, *, at_once: bool = False) -> None:
        ledger = self._ledgers.setdefault(owner, _Ledger())
        ledger.doubts[doubt] = None
        self._by_object.setdefault((doubt.resource, doubt.key), {})[owner] = None
        if at_once:
            self._read_live(owner)
        elif ledger.alarm is None:
            self._set_alarm(owner, ledger)

    def _set_alarm(self, owner: Owner, ledger: _Ledger) -> None:
        loop = asyncio.get_running_loop()
        ledger.alarm = loop.call_later(self._live_read_after, self._read_live, owner)

    def _passed(self, informer: Informer[Any], scope: str) -> None:
        """A watch has moved on: all writes up to where it is now are in the cache."""
        heap = self._by_version.get((id(informer), scope))
        reached = informer.reached(scope)
        while heap and reached is not None and heap[0][0] <= reached:
            _, _, owner, doubt = heappop(heap)
            self._settle(owner, doubt)

    def _changed(self, resource: Resource, old: Named | None, new: Named | None) -> None:
        """One object changed in a cache: are deletes settled by it?"""
        some = new if new is not None else old
        if some is None or not self._by_object:
            return
        key = some.metadata.key
        for owner in tuple(self._by_object.get((resource, key), ())):
            for doubt in tuple(self._ledgers[owner].doubts):
                if doubt.uid and doubt.resource == resource and doubt.key == key:
                    watching = self._watching(resource, key, None)
                    if not any(self._still_shows(one, key, doubt.uid) for one in watching):
                        self._settle(owner, doubt)

    def _settle(self, owner: Owner, doubt: Doubt) -> None:
        ledger = self._ledgers.get(owner)
        if ledger is None or doubt not in ledger.doubts:
            return
        del ledger.doubts[doubt]
        if not any(one[:2] == doubt[:2] for one in ledger.doubts):
            self._drop_object(owner, doubt)
        if ledger.doubts:
            return
        del self._ledgers[owner]
        if ledger.alarm:
            ledger.alarm.cancel()
        for waiter in ledger.waiters:
            waiter()

    def _drop_object(self, owner: Owner, doubt: Doubt) -> None:
        owners = self._by_object.get((doubt.resource, doubt.key))
        if owners is not None:
            owners.pop(owner, None)
            if not owners:
                del self._by_object[doubt.resource, doubt.key]

    # ── live reads ───────────────────────────────────────────────────────────────────────

    def _read_live(self, owner: Owner) -> None:
        ledger = self._ledgers.get(owner)
        if ledger is None or (ledger.reading and not ledger.reading.done()):
            return
        ledger.reading = asyncio.get_running_loop().create_task(self._read_all(owner))
        self._tasks.add(ledger.reading)
        ledger.reading.add_done_callback(self._tasks.discard)

    async def _read_all(self, owner: Owner) -> None:
        """Read what this owner is unsure of, until it is sure of everything."""
        failures = 0
        while (ledger := self._ledgers.get(owner)) and ledger.doubts:
            doubt = next(iter(ledger.doubts))
            alike = [one for one in ledger.doubts if _one_list_tells_both(one, doubt)]
            try:
                if doubt.wholesale or len(alike) > MANY:
                    await self._read_namespace(doubt)
                else:
                    alike = [doubt]
                    await self._read_one(doubt)
            except MantaError as error:
                failures += 1
                log.warning("cannot read %s %s live: %s", doubt.resource.kind, doubt.key, error)
                await asyncio.sleep(LIVE_READ_BACKOFF.delay(failures, self._random))
            else:
                for one in alike:
                    self._settle(owner, one)

    async def _read_one(self, doubt: Doubt) -> None:
        for informer in self._watching(doubt.resource, doubt.key, None):
            self.live_reads += 1
            try:
                await informer.read(doubt.key, doubt.uid)
            except Malformed as error:
                # It can be read by nobody, now or later: no reason to keep its owner waiting.
                informer.readability(doubt.key, str(error))

    async def _read_namespace(self, doubt: Doubt) -> None:
        for informer in self._watching(doubt.resource, doubt.key, None):
            self.live_reads += 1
            await informer.read_namespace(doubt.key.namespace)


def _one_list_tells_both(one: Doubt, other: Doubt) -> bool:
    return one.resource == other.resource and one.key.namespace == other.key.namespace
