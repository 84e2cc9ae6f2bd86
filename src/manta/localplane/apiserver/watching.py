"""Watches: a stream of changes after any revision in the history, one JSON line each.

Lines are encoded once for all watchers of a version. An object that enters or leaves the selection is
sent as ADDED or DELETED. A bookmark is sent after all changes before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from manta.api.well_known import ANNOTATION_INITIAL_EVENTS_END
from manta.httpserver.budget import Reservation, unlimited
from manta.localplane.apiserver import rendering
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.listing import await_revision
from manta.localplane.apiserver.options import ListOptions
from manta.localplane.apiserver.selectors import Selection
from manta.localplane.apiserver.status_errors import StatusError, expired
from manta.localplane.store.objects import Change, Compacted, Record
from manta.localplane.store.watchers import Watcher

BOOKMARK_SECONDS = 30.0
MAX_SECONDS = 1800.0
PART_BYTES = 64 * 1024
"""Written at a time; later changes wait in the history of the store."""

RenderObject = Callable[[Record], bytes]
"""Encodes an object of a watch that is not plain JSON (Tables, metadata only)."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    resource: ApiResource
    selection: Selection
    options: ListOptions
    render: RenderObject | None = None
    reservation: Reservation = field(default_factory=unlimited)


async def open_watch(core: Core, request: WatchRequest) -> WatchStream:
    """Start a watch. Errors are sent as ERROR events in the stream."""
    watch = _Watch(core, request)
    try:
        initial, watcher = await watch.begin()
    except Compacted as error:
        return WatchStream(core, _single_error(expired(str(error))), None)
    except StatusError as error:
        return WatchStream(core, _single_error(error), None)
    return WatchStream(core, watch.lines(initial, watcher), watcher)


class WatchStream:
    """The body of a watch response. Its owner must close it."""

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


async def _single_error(error: StatusError) -> AsyncGenerator[bytes, None]:
    yield _error_line(error)


def _error_line(error: StatusError) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": error.status()}) + b"\n"


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to parts of about PART_BYTES."""
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
    def __init__(self, core: Core, request: WatchRequest) -> None:
        self._core = core
        self._resource = request.resource
        self._selection = request.selection
        self._options = request.options
        self._render = request.render
        self._reservation = request.reservation

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
        revision = options.revision or 0
        if options.initial_events:
            if revision > store.revision:
                await await_revision(self._core, revision)
            return self._snapshot()
        if options.initial_events is None and not revision:
            return self._snapshot()
        return [], store.watch(self._resource.storage_name, revision or store.revision)

    def _snapshot(self) -> tuple[list[Record], Watcher]:
        """Return the current records and a watcher of later changes, without an await in between."""
        store, selection = self._core.store, self._selection
        records = store.select(self._resource.storage_name, selection.namespace)
        if not selection.everything:
            records = [record for record in records if selection.matches(record)]
        return records, store.watch(self._resource.storage_name, store.revision)

    async def _initial(self, records: list[Record], watcher: Watcher) -> AsyncIterator[bytes]:
        await self._core.store.wait_durable(watcher.since)
        await self._reservation.wait_for()
        lines = (self._line("ADDED", record) for record in records)
        for part in _parts(lines):
            yield part
            await asyncio.sleep(0)
        wanted = self._options.initial_events or (
            self._options.initial_events is None and not self._options.revision
        )
        if wanted and self._options.bookmarks:
            yield self._bookmark(watcher.since, {ANNOTATION_INITIAL_EVENTS_END: "true"})

    async def _live(self, watcher: Watcher) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + min(self._options.timeout or MAX_SECONDS, MAX_SECONDS)
        mark = loop.time() + BOOKMARK_SECONDS
        while not watcher.closed and loop.time() < end:
            await watcher.ready(max(0.0, min(end, mark) - loop.time()))
            async for part in self._queued_lines(watcher, end):
                yield part
            # Nothing waits: all durable changes were sent, and a bookmark may say so.
            if loop.time() >= min(end, mark) and watcher.empty and not watcher.lost:
                mark = loop.time() + BOOKMARK_SECONDS
                if self._options.bookmarks:
                    revision = max(self._core.store.durable_revision, watcher.since)
                    yield self._bookmark(revision, {})
        watcher.close()
        async for part in self._queued_lines(watcher, None):
            yield part
        if watcher.lost:
            yield _error_line(expired("the watch is too far behind: list again"))

    async def _queued_lines(self, watcher: Watcher, end: float | None) -> AsyncIterator[bytes]:
        """Yield the lines of queued changes, within the memory of the client."""
        loop = asyncio.get_running_loop()
        while not watcher.empty and (end is None or loop.time() < end):
            await self._reservation.wait_for()
            part = b"".join(self._event_lines(watcher.take(PART_BYTES)))
            if part:
                yield part

    def _event_lines(self, changes: Iterable[Change]) -> Iterable[bytes]:
        for change in changes:
            is_in = change.type != "DELETED" and self._selection.matches(change.record)
            was_in = change.previous is not None and self._selection.matches(change.previous)
            if is_in:
                yield self._change_line("MODIFIED" if was_in else "ADDED", change)
            elif was_in and change.type == "DELETED":
                yield self._change_line("DELETED", change)
            elif was_in:
                yield self._line("DELETED", rendering.leaving_record(change))

    def _change_line(self, as_type: str, change: Change) -> bytes:
        if self._render is not None:
            return self._line(as_type, change.record)
        return rendering.watch_line(self._resource, change, as_type)

    def _line(self, as_type: str, record: Record) -> bytes:
        render = self._render or self._plain
        return b'{"type":"%s","object":%s}\n' % (as_type.encode(), render(record))

    def _plain(self, record: Record) -> bytes:
        return rendering.encode_object(self._resource, record)

    def _bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        """Return a BOOKMARK event: an empty object with the revision."""
        meta: dict[str, object] = {"resourceVersion": str(revision)}
        if annotations:
            meta["annotations"] = annotations
        resource = self._resource
        empty = resource.strategy.empty_object()
        body = {name: empty[name] for name in empty if name not in ("kind", "apiVersion")}
        raw = msgspec.json.encode(body | {"metadata": meta})
        return self._line("BOOKMARK", Record("", raw, revision, resource.strategy.epoch))
