"""The store: every object, one revision counter, watchers, and a journal where one is given.

All calls but `settled` are synchronous and run on the event loop, so that reading, deciding and
writing within one turn of the loop is a transaction. A write counts as done when `settled` has
returned for its revision; watchers hear of it then, never earlier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from manta.localplane.store import objects
from manta.localplane.store.memory import give_back
from manta.localplane.store.objects import Change, Record, Shelf
from manta.localplane.store.watchers import Watcher

_encode = msgspec.json.Encoder().encode
OBJECT_LIMIT: Final = 1536 * 1024
"""Bytes of one object as JSON: etcd takes requests of 1.5 MiB."""
_TIDY_AT_ONCE = 20
_TIDY_PAUSE = 0.02


class Journal(Protocol):
    """Where writes survive. `append` returns at once; `on_commit` is told what is safe."""

    def append(self, shelf: str, change: Change) -> None: ...
    def reverted(self) -> None: ...
    async def close(self) -> None: ...


class StoreFailed(Exception):  # noqa: N818
    """The journal could not write. Nothing is acknowledged until it can."""


class ObjectTooLarge(Exception):  # noqa: N818
    """An object of more bytes than one write may have. `size` is what was asked for."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes: at most {OBJECT_LIMIT} are stored")
        self.size = size


class Store:
    def __init__(self, *, elapsed: Callable[[], float] = time.monotonic, revision: int = 1) -> None:
        self.revision = revision
        self.failure: BaseException | None = None
        self.reverts = 0
        """How often writes were taken back: their revisions are then given to others."""
        self.on_revert: Callable[[str, str], None] = lambda *_: None
        """Called for every object whose latest state was taken back."""
        self.elapsed = elapsed
        self._shelves: dict[str, Shelf] = {}
        self._watchers: dict[str, set[Watcher]] = {}
        self._journal: Journal | None = None
        self._settled = revision
        self._compacted = 0
        self._forgotten: dict[str, int] = {}
        """Of which revisions the watchers of a shelf know that they are forgotten."""
        self._history = 0
        """Bytes of all histories, at most: what shelves drop themselves is counted when it matters."""
        self._unsettled: list[tuple[str, Change]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    # ── reading ──────────────────────────────────────────────────────────────────────────
    def shelf(self, name: str) -> Shelf:
        found = self._shelves.get(name)
        if found is None:
            found = self._shelves[name] = Shelf(name, born=self._compacted)
        return found

    def begin_history(self, compacted: int) -> None:
        """After a start: changes up to here are not remembered, on any shelf."""
        self._compacted = compacted
        for shelf in self._shelves.values():
            shelf.compacted = max(shelf.compacted, compacted)
        self._history = sum(shelf.history_bytes for shelf in self._shelves.values())

    def get(self, shelf: str, key: str) -> Record | None:
        return self.shelf(shelf).records.get(key)

    def select(self, shelf: str, namespace: str = "") -> list[Record]:
        return self.shelf(shelf).select(namespace)

    def select_at(self, shelf: str, revision: int, namespace: str = "") -> list[Record]:
        return self.shelf(shelf).select_at(revision, namespace)

    def shelves(self) -> Mapping[str, Shelf]:
        return self._shelves

    # ── writing ──────────────────────────────────────────────────────────────────────────
    def put(self, shelf: str, key: str, body: dict[str, Any], *, epoch: int = 0) -> Record:
        """Create or replace. The new revision is written into `metadata.resourceVersion`.

        Raises ObjectTooLarge, and changes nothing then.
        """
        record = self._record(key, body, epoch, shelf)
        self._publish(shelf, self.shelf(shelf).put(record, self.elapsed()))
        return record

    def remove(self, shelf: str, key: str, body: dict[str, Any], *, epoch: int = 0) -> Record:
        """Delete. `body` is the last state that watchers see, at the revision of the deletion."""
        record = self._record(key, body, epoch)
        self._publish(shelf, self.shelf(shelf).remove(record, self.elapsed()))
        return record

    def check_size(self, shelf: str, key: str, raw: bytes) -> None:
        """Raises ObjectTooLarge. What was stored before there was a limit may stay and shrink."""
        if len(raw) > OBJECT_LIMIT:
            before = self.get(shelf, key)
            if before is None or len(before.raw) < len(raw):
                raise ObjectTooLarge(len(raw))

    def _record(self, key: str, body: dict[str, Any], epoch: int, shelf: str = "") -> Record:
        if self.failure is not None:
            raise StoreFailed(str(self.failure))
        revision = self.revision + 1
        body["metadata"]["resourceVersion"] = str(revision)
        raw = _encode(body)
        if shelf:
            self.check_size(shelf, key, raw)
        self.revision = revision
        return Record(key, raw, revision, epoch)

    def _publish(self, shelf: str, change: Change) -> None:
        self._history += change.size
        if self._history > objects.HISTORY_BYTES:
            self._trim_history()
        self._forget_watchers(shelf)
        if self._journal is None:
            self._tell(shelf, change)
            self._settle(change.revision)
            return
        self._unsettled.append((shelf, change))
        self._journal.append(shelf, change)

    def _trim_history(self) -> None:
        """The shelf with the longest history gives way."""
        shelves = self._shelves.values()
        self._history = sum(shelf.history_bytes for shelf in shelves)
        while self._history > objects.HISTORY_BYTES:
            longest = max(shelves, key=lambda shelf: shelf.history_bytes)
            before = longest.history_bytes
            longest.drop_oldest()
            if longest.history_bytes == before:
                return
            self._history -= before - longest.history_bytes
            self._forget_watchers(longest.name)

    def _forget_watchers(self, shelf: str) -> None:
        """End the watches whose next change has left the history: else they would keep it."""
        compacted = self.shelf(shelf).compacted
        if self._forgotten.get(shelf, 0) == compacted:
            return
        self._forgotten[shelf] = compacted
        for watcher in tuple(self._watchers.get(shelf, ())):
            watcher.forgotten(compacted)

    def _tell(self, shelf: str, change: Change) -> None:
        for watcher in tuple(self._watchers.get(shelf, ())):
            watcher.offer(change)

    async def tidy(self) -> None:
        """After a start: pack, little by little, what was loaded and nobody has written since."""
        packed = False
        for shelf in tuple(self._shelves.values()):
            while shelf.pack_stale(_TIDY_AT_ONCE):
                packed = True
                await asyncio.sleep(_TIDY_PAUSE)
        if packed:
            give_back()

    # ── watching ─────────────────────────────────────────────────────────────────────────
    def watch(self, shelf: str, since: int) -> Watcher:
        """Changes after a revision. Raises Compacted when they are no longer remembered."""
        replayed = self.shelf(shelf).replay(since) if since < self.revision else []
        backlog = [change for change in replayed if change.revision <= self._settled]
        watcher = Watcher(shelf, since, backlog)
        self._watchers.setdefault(shelf, set()).add(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        watcher.close()
        self._watchers.get(watcher.shelf, set()).discard(watcher)

    def watcher_count(self, shelf: str) -> int:
        return len(self._watchers.get(shelf, ()))

    def close_watches(self, shelf: str | None = None) -> None:
        """End the watches of one shelf, or all of them: the server is going, or the resource is."""
        for name, watchers in self._watchers.items():
            if shelf is None or name == shelf:
                for watcher in tuple(watchers):
                    watcher.close()

    # ── durability ───────────────────────────────────────────────────────────────────────
    def attach(self, journal: Journal) -> None:
        self._journal = journal
        self._settled = self.revision

    @property
    def settled_revision(self) -> int:
        return self._settled

    async def settled(self, revision: int) -> None:
        """Return when everything up to this revision survives. At once without a journal.

        What survives can be read also while the journal fails.
        """
        if revision <= self._settled:
            return
        if self.failure is not None:
            raise StoreFailed(str(self.failure))
        if revision > self.revision:
            return
        await self._wait_for(revision)

    async def reached(self, revision: int) -> None:
        """Return when this revision exists and survives; it may lie in the future."""
        if revision > self._settled:
            await self._wait_for(revision)

    async def _wait_for(self, revision: int) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, waiter))
        await waiter

    def committed(self, revision: int) -> None:
        """The journal says: safe up to here. Watchers hear, then writers are answered."""
        ready = 0
        for shelf, change in self._unsettled:
            if change.revision > revision:
                break
            ready += 1
            self._tell(shelf, change)
        del self._unsettled[:ready]
        self._settle(revision)

    def _settle(self, revision: int) -> None:
        self._settled = max(self._settled, revision)
        if not self._waiting:
            return
        still: list[tuple[int, asyncio.Future[None]]] = []
        for wanted, waiter in self._waiting:
            if wanted > revision:
                still.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiting = still

    def fail(self, failure: BaseException) -> None:
        """The journal says: it cannot write. Every waiting and every later writer is told.

        What was not written is taken back, so that readers see what a restart would show them.
        Nobody has heard of it: neither writers nor watchers hear of what is not settled.
        """
        self.failure = failure
        for shelf, change in reversed(self._unsettled):
            self.shelf(shelf).revert(change)
        lost = {(shelf, change.record.key) for shelf, change in self._unsettled}
        self._unsettled = []
        self.revision = self._settled
        self.reverts += 1
        for shelf, key in lost:
            self.on_revert(shelf, key)
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(StoreFailed(str(failure)))
        self._waiting = []
        self.close_watches()  # some may begin at a revision that was taken back
        if self._journal is not None:
            self._journal.reverted()

    def recover(self) -> None:
        """The journal says: it can write again."""
        self.failure = None

    async def close(self) -> None:
        self.close_watches()
        if self._journal is not None:
            await self._journal.close()
