"""Indexes of open sessions: made beside the requests, in a child process, and again when a session grew."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest

from manta.cli.server.history_index import in_child
from manta.history.index import queries
from manta.history.indexing import SessionInfo
from manta.history.layout import event_key
from manta.history.serve import sessions
from manta.history.serve.access import OwnerAccess
from manta.history.serve.server import HistoryHandler
from manta.history.serve.sessions import OpenSessions, in_thread
from manta.history.store import StoreError
from manta.httpserver.messages import HttpRequest
from support.history import SESSION, WHO, generated_lines, recorded_session

KEY = WHO.session(SESSION)
PATH = f"/history/{KEY.path}/api/jobs/"


async def test_an_index_is_made_in_a_child_process(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    found = await OpenSessions(catalog, in_child(catalog)).get(KEY)
    assert found is not None
    assert queries.tasks(found.database).total > 10


async def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    info = catalog.info(KEY)
    assert info is not None
    (tmp_path / "cache").write_text("a file where the cache should be")
    with pytest.raises(StoreError, match=r"cannot index .*train.*File exists"):
        await in_child(catalog)(info)


async def test_a_request_does_not_wait_for_ever_for_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_INDEX_TIMEOUT", 0.01)
    catalog, access = recorded_session(tmp_path), OwnerAccess()
    gate = asyncio.Event()

    async def slow(info: SessionInfo) -> Path:
        await gate.wait()
        return await asyncio.to_thread(catalog.make_index, info)

    handler = HistoryHandler(catalog, access, [], secure=False, make_index=slow)
    request = HttpRequest("GET", PATH, (), {"authorization": f"Bearer {access.token}"})
    answer = await handler.handle(request)
    assert (answer.status, dict(answer.headers)["Retry-After"]) == (503, "5")
    assert b"is being made" in (answer.body if isinstance(answer.body, bytes) else b"")
    gate.set()
    monkeypatch.setattr(sessions, "_INDEX_TIMEOUT", 60.0)
    assert (await handler.handle(request)).status == 200
    await handler.close()


async def test_a_session_whose_index_cannot_be_made_starts_no_process_at_each_request(
    tmp_path: Path,
) -> None:
    catalog, access = recorded_session(tmp_path), OwnerAccess()
    tries = []

    async def broken(info: SessionInfo) -> Path:
        tries.append(info)
        if len(tries) > 1:
            return await asyncio.to_thread(catalog.make_index, info)
        raise StoreError("the index cannot be made")

    handler = HistoryHandler(catalog, access, [], secure=False, make_index=broken)
    request = HttpRequest("GET", PATH, (), {"authorization": f"Bearer {access.token}"})
    for _ in range(3):
        answer = await handler.handle(request)
        assert answer.status == 503
        assert b"the index cannot be made" in (
            answer.body if isinstance(answer.body, bytes) else b""
        )
    assert len(tries) == 1
    more = gzip.compress(b"".join(generated_lines(200)))
    catalog.store.create(event_key(KEY, WHO.pod, "zz"), more)
    assert (await handler.handle(request)).status == 200  # it grew, which may have changed it
    await handler.close()


async def test_a_damaged_index_is_an_answer_of_503(tmp_path: Path) -> None:
    catalog, access = recorded_session(tmp_path), OwnerAccess()
    info = catalog.info(KEY)
    assert info is not None
    index = catalog.make_index(info)
    index.write_bytes(index.read_bytes()[:4096] + b"x" * 40_000)
    handler = HistoryHandler(catalog, access, [], secure=False)
    request = HttpRequest("GET", PATH, (), {"authorization": f"Bearer {access.token}"})
    assert (await handler.handle(request)).status == 503
    await handler.close()


async def test_a_session_that_grew_is_indexed_again_while_the_old_index_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_FRESH_SECONDS", 0.0)
    catalog = recorded_session(tmp_path)
    opened = OpenSessions(catalog, in_thread(catalog))
    first = await opened.get(KEY)
    assert first is not None
    before = queries.tasks(first.database).total
    more = gzip.compress(b"".join(generated_lines(200)))
    catalog.store.create(event_key(KEY, WHO.pod, "zz"), more)
    same = await opened.get(KEY)
    assert same is not None
    assert queries.tasks(same.database).total == before
    for _, task in list(opened._opening.values()):
        await task
    grown = await opened.get(KEY)
    assert grown is not None
    assert queries.tasks(grown.database).total == before + 200
    await opened.close()


async def test_a_session_that_was_deleted_is_not_shown_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_FRESH_SECONDS", 0.0)
    catalog = recorded_session(tmp_path)
    opened = OpenSessions(catalog, in_thread(catalog))
    assert await opened.get(KEY) is not None
    monkeypatch.setattr(catalog, "info", lambda _: None)
    await opened.get(KEY)  # looks again, and answers meanwhile
    for _, task in list(opened._opening.values()):
        await task
    await asyncio.sleep(0)
    assert await opened.get(KEY) is None
    await opened.close()
