"""The sessions that are open: an index each, made in the background and made again when a session grew."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from manta.history.catalog import Catalog, connect
from manta.history.indexing import SessionInfo
from manta.history.layout import SessionKey
from manta.history.logs import LogReader
from manta.history.serve.shapes import Session
from manta.history.store import StoreError

log = logging.getLogger(__name__)

_OPEN: Final = 8
_FRESH_SECONDS: Final = 60.0
_FAILED_SECONDS: Final = 60.0
"""How long an index that could not be made is not tried again, unless the session grows."""
_FAILURES: Final = 100
_INDEX_TIMEOUT: Final = 20.0
"""Seconds that a request waits for an index before the client has to retry."""
MakeIndex = Callable[[SessionInfo], Awaitable[Path]]


class IndexPendingError(Exception):
    """The index is still being made. The message says since when."""


class _Opened(NamedTuple):
    at: float
    path: Path
    database: sqlite3.Connection
    ray_version: str


def in_thread(catalog: Catalog) -> MakeIndex:
    """Makes indexes in this process, for commands and tests."""

    async def make(info: SessionInfo) -> Path:
        return await asyncio.to_thread(catalog.make_index, info)

    return make


class OpenSessions:
    def __init__(self, catalog: Catalog, make_index: MakeIndex) -> None:
        self._catalog = catalog
        self._make_index = make_index
        self._open: OrderedDict[SessionKey, _Opened] = OrderedDict()
        self._failed: OrderedDict[Path, tuple[float, str]] = OrderedDict()
        """When and why an index could not be made, by its file."""
        self._opening: dict[SessionKey, tuple[float, asyncio.Task[_Opened | None]]] = {}

    async def get(self, key: SessionKey) -> Session | None:
        """The session; None if there is none. Raises StoreError, and IndexPendingError if it takes long."""
        known = self._open.get(key)
        if known is None:
            since, opening = self._start(key)
            await asyncio.wait([opening], timeout=_INDEX_TIMEOUT)
            if not opening.done():
                waited = time.monotonic() - since
                raise IndexPendingError(f"the index of {key.path} is being made for {waited:.0f} s")
            known = opening.result()
            if known is None:
                return None
        elif time.monotonic() - known.at > _FRESH_SECONDS:
            self._start(key)  # it may have grown; until the new index is there, the old one answers
        return Session(
            known.database, LogReader(self._catalog.store, known.database), known.ray_version
        )

    def _start(self, key: SessionKey) -> tuple[float, asyncio.Task[_Opened | None]]:
        if key not in self._opening:
            task = asyncio.create_task(self._make(key), name=f"index of {key.path}")
            self._opening[key] = (time.monotonic(), task)
            task.add_done_callback(lambda done: self._made(key, done))
        return self._opening[key]

    async def _make(self, key: SessionKey) -> _Opened | None:
        info = await asyncio.to_thread(self._catalog.info, key)
        if info is None:
            return None
        path = await asyncio.to_thread(self._catalog.index_file, info)
        known = self._open.get(key)
        if known is not None and known.path == path:
            return known._replace(at=time.monotonic())
        if not path.exists():
            path = await self._make_or_refuse(path, info)
        database = await asyncio.to_thread(connect, path)
        return _Opened(time.monotonic(), path, database, info.ray_version)

    async def _make_or_refuse(self, path: Path, info: SessionInfo) -> Path:
        """Not every request starts a process for an index that cannot be made. Raises StoreError."""
        since, why = self._failed.get(path, (-_FAILED_SECONDS, ""))
        if time.monotonic() - since < _FAILED_SECONDS:
            raise StoreError(why)
        try:
            return await self._make_index(info)
        except StoreError as error:
            self._failed[path] = (time.monotonic(), str(error))
            self._failed.move_to_end(path)
            while len(self._failed) > _FAILURES:
                self._failed.popitem(last=False)
            raise

    def _made(self, key: SessionKey, done: asyncio.Task[_Opened | None]) -> None:
        del self._opening[key]
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            log.warning("%s: %s", key.path, error)
            if key in self._open:  # the old index answers; not every request tries again
                self._open[key] = self._open[key]._replace(at=time.monotonic())
        elif (opened := done.result()) is None:
            self._open.pop(key, None)  # deleted meanwhile
        else:
            self._open[key] = opened
            self._open.move_to_end(key)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)  # a response that still reads it keeps it open

    async def close(self) -> None:
        """End what is under way."""
        tasks = [task for _, task in self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
