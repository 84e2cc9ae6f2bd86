"""The store: all objects, one revision counter, watchers, and an optional journal.

All calls but the waiting ones are synchronous and run on the event loop: reads and writes without an
`await` in between are a transaction. A write is acknowledged when `wait_durable` returns for its
revision; watchers see it then, never earlier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from manta.localplane.store import objects
from manta.localplane.store.objects import Change, Record, ResourceTable
from manta.localplane.store.watchers import Watcher
from manta.runtime.memory import release_memory

_encode = msgspec.json.Encoder().encode
OBJECT_LIMIT: Final = 1536 * 1024
"""Bytes of one object as JSON: etcd takes requests of 1.5 MiB."""
_COMPRESSED_AT_ONCE = 20
_COMPRESS_PAUSE_SECONDS = 0.02


class Journal(Protocol):
    """Persists changes. `append` returns at once; later it calls `Store.committed` or `Store.fail`."""

    def append(self, resource: str, change: Change) -> None: ...
    def reverted(self) -> None: ...
    async def close(self) -> None: ...


class StoreFailed(Exception):  # noqa: N818
    """The journal cannot write. No write is acknowledged until it can."""


class ObjectTooLarge(Exception):  # noqa: N818
    """An object with more than OBJECT_LIMIT bytes. `size` is its size."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes: at most {OBJECT_LIMIT} are stored")
        self.size = size


class Store:
    def __init__(self, *, elapsed: Callable[[], float] = time.monotonic, revision: int = 1) -> None:
        self.revision = revision
        self.failure: BaseException | None = None
        self.reverts = 0
        """How often writes were undone; later writes use the same revisions again."""
        self.on_revert: Callable[[str, str], None] = lambda *_: None
        """Called with resource and key of every object whose latest write was undone."""
        self.elapsed = elapsed
        self._resources: dict[str, ResourceTable] = {}
        self._watchers: dict[str, dict[Watcher, None]] = {}
        """In the order in which they began: the order of wake-ups does not depend on addresses."""
        self._journal: Journal | None = None
        self._durable = revision
        self._compacted = 0
        self._checked: dict[str, int] = {}
        """By resource: up to which revision watchers were checked against the compaction."""
        self._history = 0
        """Bytes of all histories; an upper bound, corrected in `_trim_history`."""
        self._pending: list[tuple[str, Change]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    # ── reading ──────────────────────────────────────────────────────────────────────────
    def resource(self, name: str) -> ResourceTable:
        found = self._resources.get(name)
        if found is None:
            found = self._resources[name] = ResourceTable(name, start_revision=self._compacted)
        return found

    def begin_history(self, compacted: int) -> None:
        """After a start: changes up to this revision are in no history."""
        self._compacted = compacted
        for resource in self._resources.values():
            resource.compacted = max(resource.compacted, compacted)
        self._history = sum(resource.history_bytes for resource in self._resources.values())

    def get(self, resource: str, key: str) -> Record | None:
        return self.resource(resource).records.get(key)

    def select(self, resource: str, namespace: str = "") -> list[Record]:
        return self.resource(resource).select(namespace)

    def select_at(self, resource: str, revision: int, namespace: str = "") -> list[Record]:
        return self.resource(resource).select_at(revision, namespace)

    def resources(self) -> Mapping[str, ResourceTable]:
        return self._resources

    # ── writing ──────────────────────────────────────────────────────────────────────────
    def put(self, resource: str, key: str, body: dict[str, Any], *, epoch: int = 0) -> Record:
        """Create or replace an object, and return its record.

        Sets `metadata.resourceVersion` of `body`. Raises ObjectTooLarge and StoreFailed.
        """
        record = self._record(key, body, epoch, resource)
        self._publish(resource, self.resource(resource).put(record, self.elapsed()))
        return record

    def remove(self, resource: str, key: str, body: dict[str, Any], *, epoch: int = 0) -> Record:
        """Delete an object. `body` is the last state that watchers see. Raises StoreFailed."""
        record = self._record(key, body, epoch)
        self._publish(resource, self.resource(resource).remove(record, self.elapsed()))
        return record

    def check_size(self, resource: str, key: str, raw: bytes) -> None:
        """Raises ObjectTooLarge, unless a stored object is even larger: it may shrink."""
        if len(raw) > OBJECT_LIMIT:
            before = self.get(resource, key)
            if before is None or len(before.raw) < len(raw):
                raise ObjectTooLarge(len(raw))

    def _record(self, key: str, body: dict[str, Any], epoch: int, resource: str = "") -> Record:
        if self.failure is not None:
            raise StoreFailed(str(self.failure))
        revision = self.revision + 1
        body["metadata"]["resourceVersion"] = str(revision)
        raw = _encode(body)
        if resource:
            self.check_size(resource, key, raw)
        self.revision = revision
        return Record(key, raw, revision, epoch)

    def _publish(self, resource: str, change: Change) -> None:
        self._history += change.size
        if self._history > objects.HISTORY_BYTES:
            self._trim_history()
        self._end_outrun_watches(resource)
        if self._journal is None:
            self._notify(resource, change)
            self._mark_durable(change.revision)
            return
        self._pending.append((resource, change))
        self._journal.append(resource, change)

    def _trim_history(self) -> None:
        """Drop the oldest changes of the resources with the longest history."""
        resources = self._resources.values()
        self._history = sum(resource.history_bytes for resource in resources)
        while self._history > objects.HISTORY_BYTES:
            longest = max(resources, key=lambda resource: resource.history_bytes)
            before = longest.history_bytes
            longest.drop_oldest()
            if longest.history_bytes == before:
                return
            self._history -= before - longest.history_bytes
            self._end_outrun_watches(longest.name)

    def _end_outrun_watches(self, resource: str) -> None:
        """End watches whose next change has left the history: they would keep it in memory."""
        compacted = self.resource(resource).compacted
        if self._checked.get(resource, 0) == compacted:
            return
        self._checked[resource] = compacted
        for watcher in tuple(self._watchers.get(resource, ())):
            watcher.compacted(compacted)

    def _notify(self, resource: str, change: Change) -> None:
        for watcher in tuple(self._watchers.get(resource, ())):
            watcher.offer(change)

    async def compress_loaded(self) -> None:
        """After a start: compress the loaded objects, a few at a time."""
        compressed = False
        for resource in tuple(self._resources.values()):
            while resource.compress_stale(_COMPRESSED_AT_ONCE):
                compressed = True
                await asyncio.sleep(_COMPRESS_PAUSE_SECONDS)
        if compressed:
            release_memory()

    # ── watching ─────────────────────────────────────────────────────────────────────────
    def watch(self, resource: str, since: int) -> Watcher:
        """Return a watcher of the changes after a revision. Raises Compacted."""
        replayed = self.resource(resource).replay(since) if since < self.revision else []
        backlog = [change for change in replayed if change.revision <= self._durable]
        watcher = Watcher(resource, since, backlog)
        self._watchers.setdefault(resource, {})[watcher] = None
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        watcher.close()
        self._watchers.get(watcher.resource, {}).pop(watcher, None)

    def watcher_count(self, resource: str) -> int:
        return len(self._watchers.get(resource, ()))

    def close_watches(self, resource: str | None = None) -> None:
        """End the watches of one resource, or all of them."""
        for name, watchers in self._watchers.items():
            if resource is None or name == resource:
                for watcher in tuple(watchers):
                    watcher.close()

    # ── durability ───────────────────────────────────────────────────────────────────────
    def attach(self, journal: Journal) -> None:
        self._journal = journal
        self._durable = self.revision

    @property
    def durable_revision(self) -> int:
        return self._durable

    async def wait_durable(self, revision: int) -> None:
        """Return when all writes up to this revision are durable; at once without a journal.

        Raises StoreFailed. Durable revisions can be waited for while the journal fails.
        """
        if revision <= self._durable:
            return
        if self.failure is not None:
            raise StoreFailed(str(self.failure))
        if revision > self.revision:
            return
        await self._wait_for(revision)

    async def wait_reached(self, revision: int) -> None:
        """Return when this revision, which may be a future one, exists and is durable."""
        if revision > self._durable:
            await self._wait_for(revision)

    async def _wait_for(self, revision: int) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, waiter))
        await waiter

    def committed(self, revision: int) -> None:
        """Called by the journal: durable up to here. Notify watchers, then writers."""
        ready = 0
        for resource, change in self._pending:
            if change.revision > revision:
                break
            ready += 1
            self._notify(resource, change)
        del self._pending[:ready]
        self._mark_durable(revision)

    def _mark_durable(self, revision: int) -> None:
        self._durable = max(self._durable, revision)
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
        """Called by the journal when it cannot write. All waiting and later writers fail.

        Pending writes are undone, so that readers see what a restart would show. No writer and no
        watcher has seen them.
        """
        self.failure = failure
        for resource, change in reversed(self._pending):
            self.resource(resource).revert(change)
        lost = {(resource, change.record.key) for resource, change in self._pending}
        self._pending = []
        self.revision = self._durable
        self.reverts += 1
        for resource, key in lost:
            self.on_revert(resource, key)
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(StoreFailed(str(failure)))
        self._waiting = []
        self.close_watches()  # some may begin at a revision that was undone
        if self._journal is not None:
            self._journal.reverted()

    def recover(self) -> None:
        """Called by the journal when it can write again."""
        self.failure = None

    async def close(self) -> None:
        self.close_watches()
        if self._journal is not None:
            await self._journal.close()
