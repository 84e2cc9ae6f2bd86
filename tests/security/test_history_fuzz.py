"""Odd requests to the history server: no error of ours, nothing from outside the store, bounded memory.

MANTA_FUZZ_REQUESTS=20000 sends more of them.
"""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path

from manta.history.layout import SessionKey
from manta.history.serve.access import Access
from manta.history.serve.answers import UNAVAILABLE
from manta.history.serve.frontend import Frontend
from manta.history.serve.server import HistoryHandler
from manta.httpserver.messages import HttpRequest, HttpResponse, User
from support.history import WHO, recorded_session
from support.history_requests import odd_requests

REQUESTS = int(os.environ.get("MANTA_FUZZ_REQUESTS", "400"))
SECRET = b"this is outside of the store"
TOKEN = "let-me-in"
MEMORY = 64 * 1024 * 1024


class OneNamespace(Access):
    async def user(self, token: str) -> User | None:
        return User("somebody") if token == TOKEN else None

    async def may_read(self, user: User, session: SessionKey) -> bool:
        return session.namespace == "default"


async def whole(response: HttpResponse) -> bytes:
    if isinstance(response.body, bytes):
        return response.body
    return b"".join([part async for part in response.body])


def expected(request: HttpRequest, status: int) -> bool:
    """Two answers of Ray's own API are errors for a session that is over."""
    path = request.path.strip("/")
    if status == 501:
        return path.endswith("api/v0/logs/stream")
    return status < 500 or (status == 500 and path.endswith(tuple(UNAVAILABLE)))


async def test_odd_requests_find_no_error_and_no_way_out(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    recorded_session(tmp_path, replace(WHO, namespace="secret", name="hidden"), catalog.store)
    build = tmp_path / "build"
    build.mkdir()
    (build / "index.html").write_text("<html>Ray</html>")
    for place in (tmp_path / "secret", tmp_path / "store/secret", build.parent / "SECRET"):
        place.write_bytes(SECRET)
    handler = HistoryHandler(catalog, OneNamespace(), [Frontend((2, 60, 0), build)], secure=False)
    found: Counter[int] = Counter()
    tracemalloc.start()
    try:
        for request in odd_requests(1, REQUESTS, TOKEN):
            response = await handler.handle(request)
            body = await whole(response)
            about = (request.method, request.path, request.query, request.headers)
            assert expected(request, response.status), (response.status, body[:300], about)
            assert SECRET not in body, about
            assert b"root:" not in body, about
            assert b"hidden" not in body or b"may not read" in body, about
            heads = "".join(f"{name}{value}" for name, value in response.headers)
            assert not {"\r", "\n", "\0"} & set(heads), about
            found[response.status] += 1
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
        await handler.close()
    assert {200, 401, 403, 404, 405} <= set(found), found
