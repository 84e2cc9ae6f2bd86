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
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from manta.history.answers import (
    AnswerFiles,
    AnswerShipper,
    Fetch,
    answering_session,
    keep_answers,
    pause_after,
)
from manta.history.events import posted_session
from manta.history.layout import InvalidName
from manta.history.ship import Identity, SessionShipper, session_directories, ship_events
from manta.history.spool import Spool
from manta.history.store import Store, StoreError
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, text_response
from manta.runtime.process import in_daemon_thread, until_first_ends

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
    skipped: int = 0
    """Files of logs that could not be read."""


class Collector(Handler):
    def __init__(
        self, store: Store, who: Identity, options: CollectorOptions, fetch: Fetch | None = None
    ) -> None:
        """`fetch`: the dashboard beside it, if the Pod has one. Raises OSError if the spool cannot be made."""
        self.totals = Totals()
        self._store = store
        self._who = who
        self._options = options
        self._spool = Spool(
            options.spool / "events", options.spool_bytes, partial(self._dropped, "events")
        )
        self._due = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._shipping = threading.Lock()
        self._shippers: dict[str, SessionShipper | None] = {}
        self._has_more = False
        """Whether the last round left something for the next one, which comes at once."""
        self._fetch = fetch
        self._answers = AnswerFiles(options.spool / "answers")
        self._answer_shipper = AnswerShipper(store, who)
        self._living = ""
        """The session whose dashboard answered last; empty once it does not answer any more."""

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
        except ValueError as error:
            return text_response(400, f"not an array of Ray events: {error}\n")
        try:
            if session:
                await asyncio.to_thread(self._append, session, request.body)
        except OSError as error:  # Ray sends them again
            log.warning("cannot keep events until they are shipped: %s", error)
            return text_response(503, f"{error}\n")
        return text_response(200, "")

    def _append(self, session: str, body: bytes) -> None:
        if self._spool.append(session, body) >= self._options.round_bytes:
            self._loop.call_soon_threadsafe(self._due.set)

    def _dropped(self, what: str, size: int) -> None:
        self.totals.dropped[what] = self.totals.dropped.get(what, 0) + size
        log.warning("dropped %d bytes of %s that the store never got", size, what)

    # ── rounds ───────────────────────────────────────────────────────────────────────────
    async def run(self, stopping: asyncio.Event) -> None:
        """Ship until `stopping`, then once more within the budget, also if a round hangs."""
        polling = asyncio.create_task(self._poll_dashboard())
        try:
            await self._ship_until(stopping)
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        self._living = ""  # the last answers go too
        try:
            async with asyncio.timeout(self._options.budget):
                while not await self._round():  # noqa: ASYNC110 - a store does not call back
                    await asyncio.sleep(0 if self._has_more else 0.5)
        except TimeoutError:
            log.warning("the store did not take everything within %.0f s", self._options.budget)

    async def _ship_until(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._options.interval):
                    await _first_of(self._due.wait(), stopping.wait())
            self._due.clear()
            if not stopping.is_set():
                await _first_of(self._round(), stopping.wait())

    async def _poll_dashboard(self) -> None:
        """Until cancelled. A dashboard that hangs holds up nothing else."""
        while self._fetch is not None:
            began = time.monotonic()
            try:
                await in_daemon_thread(self._poll, "poll")
            except Exception:
                log.exception("answers of the dashboard are not kept")
            await asyncio.sleep(pause_after(time.monotonic() - began))

    def _poll(self) -> None:
        assert self._fetch is not None
        # First, as the answers of a session that is over are removed once they are shipped.
        self._living = answering_session(self._fetch, self._who)
        if self._living:
            keep_answers(self._fetch, self._living, self._answers)

    async def _round(self) -> bool:
        """Whether the store has everything that there was."""
        try:
            await in_daemon_thread(self.ship, "ship")
        except (StoreError, OSError) as error:
            log.warning("not shipped, trying again: %s", error)
            return False
        except Exception:
            log.exception("not shipped, trying again")
            return False
        if self._has_more:
            self._due.set()
        return not self._has_more

    def ship(self) -> None:
        """One round. Blocking. An error of one part is raised after the others; a StoreError at once, as the rest would
        fail too. What was shipped until then stays shipped."""
        failed: Exception | None = None
        with self._shipping:
            self._has_more = False
            for part in self._parts():
                try:
                    part()
                except StoreError:
                    raise
                except Exception as error:  # noqa: BLE001 - raised below
                    failed = error
        if failed is not None:
            raise failed

    def _parts(self) -> Iterator[Callable[[], None]]:
        for file in self._spool.complete_files():
            yield partial(self._ship_events, file)
        for directory in session_directories(self._options.root):
            if shipper := self._shipper(directory):
                yield partial(self._ship_logs, shipper)
        yield self._ship_answers

    def _ship_answers(self) -> None:
        self.totals.objects += self._answer_shipper.ship(self._answers, self._living)

    def _ship_events(self, file: Path) -> None:
        try:
            size = file.stat().st_size
            ship_events(self._store, self._who, file.name.partition("~")[0], file)
        except FileNotFoundError:
            return  # dropped a moment ago, to make room
        self.totals.objects += 1
        self.totals.bytes += size
        self._spool.remove(file)

    def _ship_logs(self, shipper: SessionShipper) -> None:
        done = shipper.ship()
        self._has_more = self._has_more or done.has_more
        self.totals.objects += done.objects
        self.totals.bytes += done.bytes
        self.totals.skipped += done.skipped
        for path, size in done.dropped.items():
            self._dropped(path, size)

    def _shipper(self, directory: Path) -> SessionShipper | None:
        """None for a directory that only looks like a session's; that is said once."""
        if directory.name not in self._shippers:
            state = self._options.spool / f"{directory.name}.json"
            try:
                known = SessionShipper(self._store, self._who, directory, state)
            except InvalidName as error:
                log.warning("%s is not kept: %s", directory, error)
                known = None
            self._shippers[directory.name] = known
        return self._shippers[directory.name]


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    await until_first_ends([asyncio.create_task(one) for one in waits])
