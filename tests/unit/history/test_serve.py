"""Ray's dashboard API for a session that is gone, and who may read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from manta.history.catalog import Catalog
from manta.history.layout import SessionKey
from manta.history.serve.access import Access, OwnerAccess
from manta.history.serve.frontend import Frontend, find_frontends, nearest
from manta.history.serve.server import HistoryHandler, without_colours
from manta.httpserver.messages import HttpRequest, HttpResponse, User
from support.history import FAILED_TASK, NODE, SESSION, WHO, recorded_session

BASE = f"/history/default/rayjob/train/{SESSION}/"
BEARER = {"authorization": "Bearer let-me-in"}


class OneNamespace(Access):
    """Only `default` may be read."""

    async def user(self, token: str) -> User | None:
        return User("somebody") if token == "let-me-in" else None

    async def may_read(self, user: User, session: SessionKey) -> bool:
        return session.namespace == "default"


@pytest.fixture
def build(tmp_path: Path) -> Frontend:
    package = tmp_path / "env/lib/python3.11/site-packages/ray"
    directory = package / "dashboard/client/build"
    directory.mkdir(parents=True)
    (package / "_version.py").write_text('version = "2.60.0"\n')
    (directory / "index.html").write_text("<html>Ray</html>")
    (tmp_path / "env/secret").write_text("secret")
    [found] = find_frontends([tmp_path / "env"])
    return found


@pytest.fixture
def handler(tmp_path: Path, build: Frontend) -> HistoryHandler:
    return HistoryHandler(recorded_session(tmp_path), OneNamespace(), [build], secure=False)


def ask(handler: HistoryHandler, path: str, query: str = "", **headers: str) -> HttpResponse:
    request = HttpRequest("GET", path, tuple(parse_qsl(query)), {**BEARER, **headers})
    return asyncio.run(handler.handle(request))


def answer(handler: HistoryHandler, path: str, query: str = "") -> Any:
    async def read() -> bytes:
        request = HttpRequest("GET", BASE + path, tuple(parse_qsl(query)), BEARER)
        response = await handler.handle(request)
        assert response.status == 200, response.body
        if isinstance(response.body, bytes):
            return response.body
        return b"".join([part async for part in response.body])

    return msgspec.json.decode(asyncio.run(read()))


def text(handler: HistoryHandler, query: str) -> bytes:
    async def read() -> bytes:
        request = HttpRequest("GET", f"{BASE}api/v0/logs/file", tuple(parse_qsl(query)), BEARER)
        response = await handler.handle(request)
        assert response.status == 200, response.body
        assert not isinstance(response.body, bytes)
        return b"".join([part async for part in response.body])

    return asyncio.run(read())


# ── the API ──────────────────────────────────────────────────────────────────────────────
def test_tasks_are_those_of_the_state_api(handler: HistoryHandler) -> None:
    query = "detail=1&filter_keys=state&filter_predicates=%3D&filter_values=FAILED"
    found = answer(handler, "api/v0/tasks", query)["data"]["result"]
    assert found["num_filtered"] == 1
    assert found["result"][0]["task_id"] == FAILED_TASK
    assert "number seven" in found["result"][0]["error_message"]
    assert ask(handler, f"{BASE}api/v0/tasks", "filter_keys=state").status == 400


def test_the_summary_counts_by_function(handler: HistoryHandler) -> None:
    found = answer(handler, "api/v0/tasks/summarize")["data"]["result"]["result"]
    summary = found["node_id_to_summary"]["cluster"]
    assert summary["summary"]["f"]["state_counts"]["FAILED"] == 1
    assert summary["summary_by"] == "func_name"


def test_the_timeline_is_a_chrome_trace(handler: HistoryHandler) -> None:
    found = answer(handler, "api/v0/tasks/timeline", "job_id=02000000")
    spans = [one for one in found if one["ph"] == "X"]
    assert {"task:execute", "task::f"} <= {one["name"] for one in spans}
    assert any(one["name"] == "process_name" for one in found)


def test_a_job_names_its_submission_and_driver(handler: HistoryHandler) -> None:
    job = answer(handler, "api/jobs/sub-1")
    assert (job["type"], job["status"], job["job_id"]) == ("SUBMISSION", "SUCCEEDED", "02000000")
    assert job["driver_info"]["pid"] == "29552"
    assert ask(handler, f"{BASE}api/jobs/other").status == 404


def test_logs_by_file_task_pid_and_range(handler: HistoryHandler) -> None:
    assert text(handler, f"node_id={NODE}&filename=raylet.out&lines=1") == b"three\n"
    assert text(handler, f"node_id={NODE}&filename=raylet.out&lines=-1") == b"one\ntwo\nthree\n"
    assert text(handler, f"task_id={FAILED_TASK}&suffix=out") == b"task 7\n"
    assert text(handler, f"node_id={NODE}&pid=29268&lines=1") == b"after\n"


@pytest.mark.parametrize(
    "parts",
    [
        [b"\x1b[36m(f pid=1)\x1b[0m said [1m\n"],
        [b"\x1b", b"[3", b"6m(f pid=1)\x1b[", b"0m said [1", b"m\n"],
    ],
)
async def test_colours_are_left_out_also_where_two_parts_meet(parts: list[bytes]) -> None:
    async def coming() -> AsyncIterator[bytes]:
        for one in parts:
            yield one

    assert b"".join([one async for one in without_colours(coming())]) == b"(f pid=1) said [1m\n"


async def test_an_escape_code_that_is_cut_off_at_the_end_is_kept() -> None:
    async def coming() -> AsyncIterator[bytes]:
        yield b"cut off \x1b[3"

    assert b"".join([one async for one in without_colours(coming())]) == b"cut off \x1b[3"


def test_log_files_are_listed_by_component(handler: HistoryHandler) -> None:
    found = answer(handler, "api/v0/logs", f"node_id={NODE}&glob=*")["data"]["result"]
    assert found["raylet"] == ["raylet.out"]
    assert "events/" in found["internal"]
    assert found["worker_out"][0].startswith("worker-")
    inside = answer(handler, "api/v0/logs", f"node_id={NODE}&glob=events/*")["data"]["result"]
    assert inside["internal"] == ["events/event_JOBS.log"]


# ── the frontend ─────────────────────────────────────────────────────────────────────────
def test_the_frontend_of_ray_is_served_below_the_session(handler: HistoryHandler) -> None:
    assert ask(handler, BASE).body == b"<html>Ray</html>"
    response = ask(handler, BASE.rstrip("/"))
    assert (response.status, response.headers) == (302, (("Location", BASE),))


def test_the_nearest_frontend_is_chosen(tmp_path: Path) -> None:
    installed = [
        Frontend((2, 50, 0), tmp_path),
        Frontend((2, 54, 1), tmp_path),
        Frontend((2, 60, 0), tmp_path),
    ]
    chosen = {
        wanted: nearest(installed, wanted) for wanted in ("2.54.1", "2.51.0", "3.0.0", "", "2.9.3")
    }
    versions = {wanted: one.version for wanted, one in chosen.items() if one}
    assert versions == {
        "2.54.1": (2, 54, 1), "2.51.0": (2, 54, 1), "3.0.0": (2, 60, 0), "": (2, 60, 0), "2.9.3": (2, 50, 0),
    }  # fmt: skip
    assert nearest([], "2.60.0") is None


# ── access ───────────────────────────────────────────────────────────────────────────────
def test_without_a_token_there_is_nothing(handler: HistoryHandler) -> None:
    for path in ("/history/", BASE, f"{BASE}api/jobs/"):
        assert ask(handler, path, authorization="Bearer other").status == 401
        assert ask(handler, path, authorization="").status == 401


def test_another_namespace_is_forbidden_and_not_listed(tmp_path: Path, build: Frontend) -> None:
    from dataclasses import replace

    catalog = recorded_session(tmp_path)
    other = replace(WHO, namespace="secret", name="hidden")
    recorded_session(tmp_path, other, catalog.store)
    handler = HistoryHandler(catalog, OneNamespace(), [build], secure=False)
    assert ask(handler, f"/history/secret/rayjob/hidden/{SESSION}/api/jobs/").status == 403
    listed = ask(handler, "/history/").body
    assert isinstance(listed, bytes)
    assert b"train" in listed
    assert b"hidden" not in listed


@pytest.mark.parametrize(
    "path",
    [
        "/history/default/rayjob/train/../",
        "/history/default/rayjob/train/session_x/",
        "/history/default/pods/train/session_x/",
        "/history/../../etc/passwd",
        f"{BASE}../../../../../etc/passwd",
        f"{BASE}../../../../../../secret",
        f"{BASE}static/../../../../../../secret",
        f"{BASE}nodes/../../x",
        f"{BASE}nodes/00",
        f"{BASE}logical/actors/..",
        f"{BASE}api/nothing",
        "/other",
    ],
)
def test_tricks_with_paths_are_not_found(handler: HistoryHandler, path: str) -> None:
    assert ask(handler, path).status == 404


@pytest.mark.parametrize(
    "query",
    [
        f"node_id={NODE}&filename=../../../../etc/passwd",
        f"node_id={NODE}&filename=/etc/passwd",
        "node_id=../..&filename=raylet.out",
        "filename=%00",
        "task_id=..",
        "",
    ],
)
def test_tricks_with_log_files_are_not_found(handler: HistoryHandler, query: str) -> None:
    assert ask(handler, f"{BASE}api/v0/logs/file", query).status == 404


def test_only_get_is_answered(handler: HistoryHandler) -> None:
    request = HttpRequest("DELETE", BASE, (), BEARER)
    assert asyncio.run(handler.handle(request)).status == 405


def test_a_link_is_exchanged_once_for_a_cookie(tmp_path: Path, build: Frontend) -> None:
    access = OwnerAccess()
    handler = HistoryHandler(recorded_session(tmp_path), access, [build], secure=True)
    token = access.create_link()
    assert token is not None
    good = login(handler, token)
    cookie = dict(good.headers)["Set-Cookie"]
    assert token not in cookie
    assert access.token not in cookie
    assert all(
        word in cookie for word in ("HttpOnly", "SameSite=Strict", "Secure", "Path=/history")
    )
    value = cookie.partition(";")[0]
    assert ask(handler, BASE, authorization="", cookie=value).status == 200
    assert ask(handler, BASE, authorization="", cookie=f"{handler.cookie}=other").status == 401
    again = login(handler, token)
    assert again.status == 401
    assert isinstance(again.body, bytes)
    assert b"manta history open" in again.body


def login(handler: HistoryHandler, token: str, method: str = "GET") -> HttpResponse:
    return asyncio.run(handler.handle(HttpRequest(method, "/history/login", (("token", token),))))


def test_what_is_no_link_does_not_log_in(tmp_path: Path) -> None:
    now = [0.0]
    access = OwnerAccess(clock=lambda: now[0])
    handler = HistoryHandler(recorded_session(tmp_path), access, [], secure=False)
    assert login(handler, "x").status == 401
    assert login(handler, access.token).status == 401
    old = access.create_link()
    assert old is not None
    assert login(handler, old, "HEAD").status == 405
    now[0] = 86_401.0
    assert login(handler, old).status == 401


def test_a_link_is_made_for_the_owner_only(tmp_path: Path) -> None:
    access = OwnerAccess()
    handler = HistoryHandler(recorded_session(tmp_path), access, [], secure=False)
    token = access.create_link()
    assert token is not None
    cookie = dict(login(handler, token).headers)["Set-Cookie"].partition(";")[0]

    def link(**headers: str) -> HttpResponse:
        return asyncio.run(handler.handle(HttpRequest("POST", "/history/link", (), headers)))

    assert link().status == 403
    assert link(cookie=cookie).status == 403
    assert link(authorization=f"Bearer {token}").status == 403
    made = link(authorization=f"Bearer {access.token}")
    assert isinstance(made.body, bytes)
    path: str = msgspec.json.decode(made.body)["path"]
    assert login(handler, path.partition("=")[2]).status == 200


def test_a_login_from_another_site_is_refused(handler: HistoryHandler) -> None:
    request = HttpRequest(
        "POST", "/history/login", (), {"sec-fetch-site": "cross-site"}, b"token=let-me-in"
    )
    assert asyncio.run(handler.handle(request)).status == 403


def test_logs_cannot_run_as_a_page(handler: HistoryHandler) -> None:
    response = ask(
        handler,
        f"{BASE}api/v0/logs/file",
        f"node_id={NODE}&filename=raylet.out&download_filename=a%0d%0ab",
    )
    headers = dict(response.headers)
    assert headers["Content-Security-Policy"] == "sandbox"
    assert headers["Content-Disposition"] == 'attachment; filename="ab"'
    assert response.content_type.startswith("text/plain")


def test_a_store_that_fails_is_a_503(tmp_path: Path, build: Frontend) -> None:
    from manta.history.store import Store, StoreError

    class Down(Store):
        def read(self, key: str) -> bytes | None:
            raise StoreError("down")

        def directories(self, prefix: str) -> list[str]:
            raise StoreError("down")

    catalog = Catalog(Down("s3://x", None), tmp_path / "cache")
    handler = HistoryHandler(catalog, OneNamespace(), [build], secure=False)
    assert ask(handler, BASE).status == 503
    assert ask(handler, "/history/").status == 503
