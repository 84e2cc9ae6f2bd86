"""Watches: a stream of changes from any remembered revision, line by line.

Each line is encoded once for all watchers of a version. Objects that enter or leave a selection
are told as ADDED and DELETED, and a bookmark is sent only when everything before it has been.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from manta.localplane.apiserver import rendering
from manta.localplane.apiserver.budget import Hold, unlimited
from manta.localplane.apiserver.builtin_kinds.reading import read_object
from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.listing import await_revision
from manta.localplane.apiserver.options import ListOptions
from manta.localplane.apiserver.selectors import Selection
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import Refusal, expired
from manta.localplane.store.objects import Change, Compacted, Record
from manta.localplane.store.watchers import Watcher

BOOKMARK_SECONDS = 30.0
LONGEST_SECONDS = 1800.0
PART_BYTES = 64 * 1024
"""So much is written at a time; what comes after it waits in the history of the store."""

RenderObject = Callable[[Record], bytes]
"""How one object looks in this watch, when it is not the plain JSON (Tables, metadata only)."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    served: Served
    chosen: Selection
    options: ListOptions
    render: RenderObject | None = None
    hold: Hold = field(default_factory=unlimited)


async def open_watch(core: Core, asked: WatchRequest) -> WatchStream:
    """Begin a watch now. What goes wrong from here on is told inside the stream."""
    watch = _Watch(core, asked)
    try:
        initial, watcher = await watch.begin()
    except Compacted as error:
        return WatchStream(core, _told_once(expired(str(error))), None)
    except Refusal as refusal:
        return WatchStream(core, _told_once(refusal), None)
    return WatchStream(core, watch.lines(initial, watcher), watcher)


class WatchStream:
    """The body of a watch answer. Whoever holds it must close it, read or not."""

    def __init__(
        self, core: Core, lines: AsyncGenerator[bytes, None], watcher: Watcher | None
    ) -> None:
        self._core = core
        self._lines = lines
        self._watcher = watcher

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._lines)

    async def aclose(self) -> None:
        if self._watcher is not None:
            self._core.store.unwatch(self._watcher)
        await self._lines.aclose()


async def _told_once(refusal: Refusal) -> AsyncGenerator[bytes, None]:
    yield _error_line(refusal)


def _error_line(refusal: Refusal) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": refusal.status()}) + b"\n"


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines together, in parts of about PART_BYTES."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size > PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


class _Watch:
    def __init__(self, core: Core, asked: WatchRequest) -> None:
        self._core = core
        self._served = asked.served
        self._chosen = asked.chosen
        self._options = asked.options
        self._render = asked.render
        self._hold = asked.hold

    async def lines(self, initial: list[Record], watcher: Watcher) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._initial(initial, watcher):
                yield chunk
            async for chunk in self._live(watcher):
                yield chunk
        finally:
            self._core.store.unwatch(watcher)

    async def begin(self) -> tuple[list[Record], Watcher]:
        options, store = self._options, self._core.store
        asked = options.revision or 0
        if options.initial_events:
            if asked > store.revision:
                await await_revision(self._core, asked)
            return self._snapshot()
        if options.initial_events is None and not asked:
            return self._snapshot()
        return [], store.watch(self._served.shelf, asked or store.revision)

    def _snapshot(self) -> tuple[list[Record], Watcher]:
        """Everything now, and a watcher for everything after: no await may lie between."""
        store, chosen = self._core.store, self._chosen
        records = store.select(self._served.shelf, chosen.namespace)
        if not chosen.everything:
            records = [record for record in records if chosen.matches(record)]
        return records, store.watch(self._served.shelf, store.revision)

    async def _initial(self, records: list[Record], watcher: Watcher) -> AsyncIterator[bytes]:
        await self._core.store.settled(watcher.since)
        await self._hold.space()
        lines = (self._line("ADDED", record) for record in records)
        for part in _parts(lines):
            yield part
            await asyncio.sleep(0)
        wanted = self._options.initial_events or (
            self._options.initial_events is None and not self._options.revision
        )
        if wanted and self._options.bookmarks:
            yield self._bookmark(watcher.since, {"k8s.io/initial-events-end": "true"})

    async def _live(self, watcher: Watcher) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + min(self._options.timeout or LONGEST_SECONDS, LONGEST_SECONDS)
        mark = loop.time() + BOOKMARK_SECONDS
        while not watcher.closed and loop.time() < end:
            await watcher.ready(max(0.0, min(end, mark) - loop.time()))
            async for part in self._waiting(watcher, end):
                yield part
            # What is settled now has been sent if nothing waits: a bookmark may name it.
            if loop.time() >= min(end, mark) and watcher.empty and not watcher.lost:
                mark = loop.time() + BOOKMARK_SECONDS
                if self._options.bookmarks:
                    revision = max(self._core.store.settled_revision, watcher.since)
                    yield self._bookmark(revision, {})
        watcher.close()
        async for part in self._waiting(watcher, None):
            yield part
        if watcher.lost:
            yield _error_line(expired("the watch is too far behind: list again"))

    async def _waiting(self, watcher: Watcher, end: float | None) -> AsyncIterator[bytes]:
        """What waits for this watch, as far as the client may be kept it."""
        loop = asyncio.get_running_loop()
        while not watcher.empty and (end is None or loop.time() < end):
            await self._hold.space()
            part = b"".join(self._told(watcher.take(PART_BYTES)))
            if part:
                yield part

    def _told(self, changes: Iterable[Change]) -> Iterable[bytes]:
        for change in changes:
            is_in = change.type != "DELETED" and self._chosen.matches(change.record)
            was_in = change.previous is not None and self._chosen.matches(change.previous)
            if is_in:
                yield self._change_line("MODIFIED" if was_in else "ADDED", change)
            elif was_in and change.type == "DELETED":
                yield self._change_line("DELETED", change)
            elif was_in:
                yield self._line("DELETED", rendering.leaving(change))

    def _change_line(self, as_type: str, change: Change) -> bytes:
        if self._render is not None:
            return self._line(as_type, change.record)
        return rendering.event_line(self._served, change, as_type)

    def _line(self, as_type: str, record: Record) -> bytes:
        render = self._render or self._plain
        return b'{"type":"%s","object":%s}\n' % (as_type.encode(), render(record))

    def _plain(self, record: Record) -> bytes:
        return rendering.shown(self._served, record)

    def _bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        """An object with nothing in it but how far the watch has come."""
        meta: dict[str, object] = {"resourceVersion": str(revision)}
        if annotations:
            meta["annotations"] = annotations
        served = self._served
        body = {} if served.custom is not None else read_object(served.api_version, served.kind, {})
        raw = msgspec.json.encode(body | {"metadata": meta})
        return self._line("BOOKMARK", Record("", raw, revision, rendering.epoch_of(served)))
