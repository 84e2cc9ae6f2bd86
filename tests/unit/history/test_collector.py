"""The sidecar: posted events and logs reach the store, through restarts and outages."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from manta.history import ship
from manta.history.catalog import Catalog
from manta.history.collector import Collector, CollectorOptions
from manta.history.index import queries
from manta.history.logs import LogReader
from manta.history.ship import CHUNK_BYTES, SessionShipper, Shipped
from manta.history.store import Store, StoreError
from manta.httpserver.messages import HttpRequest
from support.history import (
    DEEP_POST,
    RECORDED,
    SESSION,
    WHO,
    file_store,
    generated_lines,
    task_events,
    write_session,
)


class Flaky(Store):
    """A store that can be down."""

    def __init__(self, inner: Store) -> None:
        self.inner, self.url, self.down = inner, inner.url, False

    def create(self, key: str, content: bytes) -> bool:
        if self.down:
            raise StoreError("the store is down")
        return self.inner.create(key, content)


def collector(tmp_path: Path, store: Store, **options: float) -> Collector:
    chosen = CollectorOptions(tmp_path / "ray", tmp_path / "spool", **options)  # type: ignore[arg-type]
    return Collector(store, WHO, chosen)


async def post(own: Collector, body: bytes) -> int:
    return (await own.handle(HttpRequest("POST", "/v1/events", body=body))).status


def tasks(tmp_path: Path, store: Store) -> int:
    database = Catalog(store, tmp_path / "cache").open_index(WHO.session(SESSION))
    assert database is not None
    return queries.tasks(database).total


async def test_posts_and_logs_are_shipped_and_repeated_posts_count_once(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {"raylet.out": b"one\n"})
    own = collector(tmp_path, store)
    for line in (*RECORDED.read_bytes().splitlines(), *RECORDED.read_bytes().splitlines()[:1]):
        assert await post(own, line) == 200
    own.ship()
    assert tasks(tmp_path, store) == 16
    assert not list((tmp_path / "spool/events").iterdir())


async def test_nothing_is_lost_in_an_outage_and_a_restart(tmp_path: Path) -> None:
    store = Flaky(file_store(tmp_path))
    write_session(tmp_path / "ray", {"raylet.out": b"one\n"})
    lines = list(generated_lines(1000))
    own = collector(tmp_path, store)
    store.down = True
    for line in lines[:2]:
        await post(own, line)
    with pytest.raises(StoreError):
        own.ship()
    write_session(tmp_path / "ray", {"raylet.out": b"two\n"})
    again = collector(tmp_path, store)  # the first one was killed
    for line in lines[2:]:
        await post(again, line)
    store.down = False
    again.ship()
    assert tasks(tmp_path, store.inner) == 1000


async def test_a_full_spool_drops_the_oldest_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {})
    lines = list(generated_lines(600))
    own = collector(tmp_path, store, spool_bytes=int(2.5 * len(lines[0])))
    for line in lines:
        await post(own, line)
    assert own.totals.dropped == {"events": pytest.approx(len(lines[0]), rel=0.1)}
    assert "dropped" in caplog.text
    own.ship()
    assert tasks(tmp_path, store) == 400


async def test_the_last_round_ships_what_came_after_sigterm_was_sent(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {"raylet.out": b"the end\n"})
    own = collector(tmp_path, store, interval=3600.0)
    stopping = asyncio.Event()
    running = asyncio.create_task(own.run(stopping))
    await post(own, msgspec.json.encode(task_events(1)))
    stopping.set()
    await running
    assert tasks(tmp_path, store) == 1


async def test_a_store_that_stays_down_does_not_hold_the_pod(tmp_path: Path) -> None:
    store = Flaky(file_store(tmp_path))
    store.down = True
    write_session(tmp_path / "ray", {"raylet.out": b"x"})
    own = collector(tmp_path, store, budget=0.2)
    stopping = asyncio.Event()
    stopping.set()
    await own.run(stopping)  # returns


async def test_a_store_that_hangs_does_not_hold_the_pod(tmp_path: Path) -> None:
    """Also if SIGTERM comes while a round hangs."""

    class Hanging(Store):
        def __init__(self) -> None:
            self.url, self.asked, self.answer = "hanging", threading.Event(), threading.Event()

        def create(self, key: str, content: bytes) -> bool:
            self.asked.set()
            self.answer.wait()
            return True

    store = Hanging()
    write_session(tmp_path / "ray", {"raylet.out": b"x"})
    own = collector(tmp_path, store, interval=0.01, budget=0.2)
    stopping = asyncio.Event()
    running = asyncio.create_task(own.run(stopping))
    await asyncio.to_thread(store.asked.wait)
    stopping.set()
    await running  # returns
    store.answer.set()


async def test_events_of_a_clock_that_jumps_back_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same moment twice would be the same object twice, and the second one would not be stored."""
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {})
    own = collector(tmp_path, store)
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    for line in generated_lines(600):
        await post(own, line)
        own.ship()
    assert tasks(tmp_path, store) == 600


async def test_the_events_of_a_session_with_a_dot_in_its_name_are_all_kept(tmp_path: Path) -> None:
    """Objects that have the same name are the same object."""
    store = file_store(tmp_path)
    own = collector(tmp_path, store)
    name = "session_2026.01.31_1"
    for number in range(3):
        await post(
            own, msgspec.json.encode([{**one, "sessionName": name} for one in task_events(number)])
        )
        own.ship()
    assert len(list(store.objects(WHO.session(name).prefix))) == 3


async def test_a_session_is_known_to_live_before_its_answers_come(tmp_path: Path) -> None:
    """A round that runs meanwhile would remove them as those of a session that is over."""
    living: list[str] = []

    def fetch(uri: str) -> bytes:
        living.append(own._living)
        return msgspec.json.encode({"session_name": SESSION})

    own = collector(tmp_path, file_store(tmp_path))
    own._fetch = fetch
    own._poll()
    assert living[0] == ""
    assert set(living[1:]) == {SESSION}


async def test_a_session_without_events_keeps_its_logs(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {"raylet.out": b"no events\n"})
    own = collector(tmp_path, store)
    assert await post(own, b"[]") == 200
    own.ship()
    assert tasks(tmp_path, store) == 0
    database = Catalog(store, tmp_path / "cache").open_index(WHO.session(SESSION))
    assert database is not None
    assert b"".join(LogReader(store, database).read(WHO.pod, "raylet.out")) == b"no events\n"


async def test_a_directory_with_an_odd_name_does_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {"raylet.out": b"x"})
    (tmp_path / "ray/session_\u00e4/logs").mkdir(parents=True)
    own = collector(tmp_path, store)
    own.ship()
    own.ship()
    assert own.totals.bytes == 1
    assert caplog.text.count("is not kept: session") == 1


async def test_a_log_that_cannot_be_read_holds_up_neither_other_sessions_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {"a.out": b"a", "b.out": b"b"})
    real = os.open

    def for_another_user(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None):
        if Path(path).name == "a.out":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", for_another_user)
    own = collector(tmp_path, store)
    assert await own._round()
    assert await own._round()
    assert (own.totals.bytes, own.totals.skipped) == (1, 1)


async def test_an_unexpected_error_of_one_session_stops_no_other_and_not_the_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {"raylet.out": b"one\n"})
    (tmp_path / "ray/session_2026-01-01_first/logs").mkdir(parents=True)
    own, real = collector(tmp_path, store, interval=0.01), SessionShipper.ship

    def odd(self: SessionShipper) -> Shipped:
        if self.key.session != SESSION:
            raise RuntimeError("nobody thought of this")
        return real(self)

    monkeypatch.setattr(SessionShipper, "ship", odd)
    stopping = asyncio.Event()
    running = asyncio.create_task(own.run(stopping))
    async with asyncio.timeout(20):
        while caplog.text.count("nobody thought of this") < 2:
            await asyncio.sleep(0.01)
    assert own.totals.bytes == 4
    monkeypatch.undo()
    stopping.set()
    await running


async def test_a_full_disk_is_answered_with_503_and_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray sends the events again; what came before stays readable."""
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {})
    own = collector(tmp_path, store)
    first, second = list(generated_lines(400))
    await post(own, first)
    real, done = os.write, []

    def half(descriptor: int, content: memoryview) -> int:
        if done:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done.append(real(descriptor, content[:1000]))
        return done[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        refused = await post(own, second)
    assert refused == 503
    assert await post(own, second) == 200
    own.ship()
    assert tasks(tmp_path, store) == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[1]",
        b'"x"',
        b"\xff",
        b'[{"sessionName": "session_/../x"}]',
        b'[{"sessionName": "/etc"}]',
        DEEP_POST,
    ],
)
async def test_a_post_that_is_no_array_of_events_is_refused(tmp_path: Path, body: bytes) -> None:
    own = collector(tmp_path, file_store(tmp_path))
    assert await post(own, body) == 400
    assert not list((tmp_path / "spool/events").iterdir())


async def test_a_huge_log_holds_up_neither_posts_nor_other_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after SIGTERM: the last round goes on until everything is in the store."""
    monkeypatch.setattr(ship, "ROUND_BYTES", CHUNK_BYTES)
    stored: list[str] = []

    class Posting(Flaky):
        def create(self, key: str, content: bytes) -> bool:
            if "/logs/a.log/" in key and not any("/a.log/" in one for one in stored):
                own._append(SESSION, msgspec.json.encode(task_events(1)))
            stored.append("event" if "/events/" in key else key)
            return super().create(key, content)

    write_session(tmp_path / "ray", {"a.log": b"x" * (5 * CHUNK_BYTES), "b.log": b"b"})
    own = collector(tmp_path, Posting(file_store(tmp_path)))
    stopping = asyncio.Event()
    stopping.set()
    await own.run(stopping)
    of_huge = [at for at, one in enumerate(stored) if "/a.log/" in one]
    [of_other] = [at for at, one in enumerate(stored) if "/b.log/" in one]
    assert len(of_huge) == 5
    assert of_huge[0] < of_other < of_huge[1]
    assert of_huge[0] < stored.index("event") < of_huge[2]


async def test_what_a_round_left_comes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "ROUND_BYTES", CHUNK_BYTES)
    write_session(tmp_path / "ray", {"a.log": b"x" * (5 * CHUNK_BYTES)})
    own = collector(tmp_path, file_store(tmp_path), interval=3600.0, budget=0.01)
    stopping = asyncio.Event()
    running = asyncio.create_task(own.run(stopping))
    own._due.set()
    async with asyncio.timeout(20):
        while own.totals.bytes < 5 * CHUNK_BYTES:
            await asyncio.sleep(0.01)
    stopping.set()
    await running


async def test_a_megabyte_of_events_starts_a_round(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    write_session(tmp_path / "ray", {})
    own = collector(tmp_path, store, interval=3600.0)
    stopping = asyncio.Event()
    running = asyncio.create_task(own.run(stopping))
    for line in generated_lines(400):
        await post(own, line)
    async with asyncio.timeout(20):
        while not own.totals.objects:
            await asyncio.sleep(0.02)
    stopping.set()
    await running
    assert tasks(tmp_path, store) == 400
