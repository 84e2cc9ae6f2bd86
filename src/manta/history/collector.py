"""The collector of one Ray Pod: takes posted events, and ships them and the logs to a store.

Events wait in a spool directory until the store has them. The spool is bounded: when it is full, the oldest
file goes, and the log says what was dropped. Logs need no spool: Ray's own files are still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from manta.history.events import posted_session
from manta.history.layout import InvalidName
from manta.history.ship import Identity, SessionShipper, session_directories, ship_events
from manta.history.store import Store, StoreError
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, text_response

log = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
LIMITS: Final = Limits(
    body_bytes=32 * _MIB,
    client_bytes=48 * _MIB,
    total_bytes=48 * _MIB,
    connections=16,
    anonymous_connections=16,
    anonymous_connections_per_address=16,
    anonymous_request_seconds=60.0,
    anonymous_idle_seconds=120.0,
)


@dataclass(frozen=True, slots=True)
class CollectorOptions:
    root: Path
    """Ray's temporary directory."""
    spool: Path
    """Events that are not in the store yet, and the notes of what was shipped."""
    interval: float = 10.0
    """Seconds between two rounds."""
    round_bytes: int = _MIB
    """Events that start a round at once."""
    spool_bytes: int = 200 * _MIB
    budget: float = 25.0
    """Seconds for the last round, after SIGTERM."""


@dataclass(slots=True)
class Totals:
    """Since the start."""

    objects: int = 0
    bytes: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Bytes that were lost, by what they were."""


class Collector(Handler):
    def __init__(self, store: Store, who: Identity, options: CollectorOptions) -> None:
        self.totals = Totals()
        self._store = store
        self._who = who
        self._options = options
        self._events = options.spool / "events"
        self._events.mkdir(parents=True, exist_ok=True)
        self._current: dict[str, Path] = {}
        self._waiting = 0
        self._writing = threading.Lock()
        self._due = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._shippers: dict[str, SessionShipper] = {}

    # ── events ───────────────────────────────────────────────────────────────────────────
    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.method == "GET" and request.path in ("/healthz", "/readyz"):
            return text_response(200, "ok")
        if request.method != "POST":
            return text_response(404, "events are sent with POST\n")
        try:
            session = posted_session(request.body)
            if session:
                self._who.session(session)
        except (msgspec.MsgspecError, InvalidName) as error:
            return text_response(400, f"not an array of Ray events: {error}\n")
        if session:
            await asyncio.to_thread(self._append, session, request.body)
        return text_response(200, "")

    def _append(self, session: str, body: bytes) -> None:
        with self._writing:
            file = self._current.get(session)
            if file is None:
                file = self._events / f"{session}~{time.time_ns()}.jsonl"
                self._current[session] = file
            with file.open("ab") as lines:
                lines.write(body.replace(b"\n", b" ") + b"\n")
            self._waiting += len(body)
        if self._waiting >= self._options.round_bytes:
            self._loop.call_soon_threadsafe(self._due.set)

    def _complete_files(self) -> list[Path]:
        """The files that nobody writes to: posts from now on go to new ones."""
        with self._writing:
            self._current.clear()
            self._waiting = 0
            return sorted(self._events.glob("*.jsonl"), key=lambda one: one.name.partition("~")[2])

    def _drop_oldest(self) -> None:
        """Keep the spool within its limit."""
        files = self._complete_files()
        left = sum(one.stat().st_size for one in files)
        for one in files:
            if left <= self._options.spool_bytes:
                return
            size = one.stat().st_size
            one.unlink()
            left -= size
            self._dropped("events", size)

    def _dropped(self, what: str, size: int) -> None:
        self.totals.dropped[what] = self.totals.dropped.get(what, 0) + size
        log.warning("dropped %d bytes of %s that the store never got", size, what)

    # ── rounds ───────────────────────────────────────────────────────────────────────────
    async def run(self, stopping: asyncio.Event) -> None:
        """Ship until `stopping`, then once more within the budget."""
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._options.interval):
                    await _first(self._due.wait(), stopping.wait())
            self._due.clear()
            if not stopping.is_set():
                await self._round()
        try:
            async with asyncio.timeout(self._options.budget):
                while not await self._round():  # noqa: ASYNC110 - a store does not call back
                    await asyncio.sleep(0.5)
        except TimeoutError:
            log.warning("the store did not take everything within %.0f s", self._options.budget)

    async def _round(self) -> bool:
        try:
            await asyncio.to_thread(self.ship)
        except (StoreError, OSError) as error:
            log.warning("not shipped, trying again: %s", error)
            await asyncio.to_thread(self._drop_oldest)
            return False
        return True

    def ship(self) -> None:
        """One round. Blocking. Raises StoreError or OSError; what was shipped until then stays shipped."""
        for file in self._complete_files():
            ship_events(self._store, self._who, file.name.partition("~")[0], file)
            self.totals.objects += 1
            self.totals.bytes += file.stat().st_size
            file.unlink()
        for directory in session_directories(self._options.root):
            done = self._shipper(directory).ship()
            self.totals.objects += done.objects
            self.totals.bytes += done.bytes
            for path, size in done.dropped.items():
                self._dropped(path, size)

    def _shipper(self, directory: Path) -> SessionShipper:
        known = self._shippers.get(directory.name)
        if known is None:
            state = self._options.spool / f"{directory.name}.json"
            known = SessionShipper(self._store, self._who, directory, state)
            self._shippers[directory.name] = known
        return known


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.create_task(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
