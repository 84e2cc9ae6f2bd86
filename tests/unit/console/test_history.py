"""History in the console: what the history server says, with the visitor's own token, and links that open it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from manta.api.ray.resources import RAY_JOBS
from manta.console.fetch import HttpFetch
from manta.console.history import History, HistoryError, Kept, KeptSessions, token_needed
from manta.console.pages.history import began, history_page
from manta.history.serve.access import KubernetesAccess, OwnerAccess
from manta.history.serve.server import HistoryHandler
from manta.httpserver.handler import Handler
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.httpserver.server import HttpServer
from support.console import ray, snapshot
from support.history import SESSION, recorded_session
from support.shared_console import READ, account, shared_console

PATH = f"default/rayjob/train/{SESSION}"


class _Forward(Handler):
    """A server whose address is known before its handler is."""

    def __init__(self, later: dict[str, HistoryHandler]) -> None:
        self._later = later

    async def handle(self, request: HttpRequest) -> HttpResponse:
        return await self._later["handler"].handle(request)


async def served(handler: HistoryHandler) -> tuple[HttpServer, str]:
    server = HttpServer(handler)
    port = await server.start("127.0.0.1", 0)
    return server, f"http://127.0.0.1:{port}"


async def test_sessions_are_listed_and_a_link_opens_one_once(tmp_path: Path) -> None:
    access, fetch = OwnerAccess(), HttpFetch({})
    catalog = await asyncio.to_thread(recorded_session, tmp_path)
    handler = HistoryHandler(catalog, access, [], secure=False)
    server, url = await served(handler)
    try:
        history = History(fetch, lambda _token: (url, access.token))
        found = await history.sessions("", {})
        assert [one.path for one in found.sessions] == [PATH]
        assert not (await history.sessions("", {"kind": "rayservice"})).sessions
        link = urlsplit(await history.link("", PATH))
        assert access.token not in link.query
        request = HttpRequest("GET", link.path, tuple(parse_qsl(link.query)))
        answer = await handler.handle(request)
        assert dict(answer.headers)["Refresh"] == f"0; url=/history/{PATH}/"
        assert (await handler.handle(request)).status == 401
    finally:
        await fetch.close()
        await server.stop(grace_seconds=0.1)


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "../..", "a/b/c/d", ""])
async def test_a_login_leads_to_a_session_and_nowhere_else(tmp_path: Path, to: str) -> None:
    access = OwnerAccess()
    catalog = await asyncio.to_thread(recorded_session, tmp_path)
    handler = HistoryHandler(catalog, access, [], secure=False)
    query = (("token", access.create_link()), ("to", to))
    answer = await handler.handle(HttpRequest("GET", "/history/login", query))
    assert dict(answer.headers)["Refresh"] == "0; url=/history/"


async def test_in_a_cluster_each_person_sees_what_kubernetes_lets_them(tmp_path: Path) -> None:
    catalog = await asyncio.to_thread(recorded_session, tmp_path)
    later: dict[str, HistoryHandler] = {}

    server = HttpServer(_Forward(later))
    port = await server.start("127.0.0.1", 0)
    try:
        async with shared_console(tmp_path, "--history", f"http://127.0.0.1:{port}") as shared:
            access = KubernetesAccess(shared.plane.client)
            later["handler"] = HistoryHandler(catalog, access, [], secure=False)
            client = shared.plane.client
            await client.create(RAY_JOBS, "default", _job("train"))
            tokens = {
                name: await account(client, name, READ if name == "reader" else ())
                for name in ("reader", "nobody")
            }
            browsers = {name: shared.browser() for name in tokens}
            for name, token in tokens.items():
                assert await browsers[name].log_in(token) == 200
            _, text = await browsers["reader"].get("/history")
            assert "/history/open?session=default%2Frayjob%2Ftrain" in text
            _, text = await browsers["nobody"].get("/history")
            assert "nothing is kept that you may read" in text
            _, text = await browsers["reader"].get("/rayjobs/default/train")
            assert "/history?namespace=default&amp;kind=rayjob&amp;name=train" in text

            status, _ = await browsers["reader"].get(f"/history/open?session={PATH}")
            assert status == 303
            answer = browsers["reader"].answer
            assert answer is not None
            link = urlsplit(answer.headers["Location"])
            assert tokens["reader"] not in answer.headers["Location"]
            opened = await later["handler"].handle(
                HttpRequest("GET", link.path, tuple(parse_qsl(link.query)))
            )
            assert opened.status == 200
            cookie = dict(opened.headers)["Set-Cookie"].partition(";")[0]
            seen = await later["handler"].handle(
                HttpRequest("GET", f"/history/{PATH}/api/jobs/", (), {"cookie": cookie})
            )
            assert seen.status == 200
    finally:
        await server.stop(grace_seconds=0.1)


async def test_a_history_server_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    async with shared_console(tmp_path, "--history", "http://127.0.0.1:9") as shared:
        browser = shared.browser()
        await browser.log_in(await account(shared.plane.client, "reader", READ))
        status, text = await browser.get("/history")
        assert status == 200
        assert "127.0.0.1:9" in text


def test_who_is_impersonated_has_no_token_for_the_history() -> None:
    with pytest.raises(HistoryError, match="needs a login with a token"):
        token_needed("")


def test_the_page_shows_names_as_text_and_links_what_is_still_there() -> None:
    job = ray("RayJob", "train")
    evil = Kept("default", "rayjob", "<script>", SESSION)
    page = history_page(
        snapshot(job), KeptSessions((Kept("default", "rayjob", "train", SESSION), evil), True), {}
    )
    assert "/rayjobs/default/train" in page.body()
    assert "<script>" not in page.body()
    assert "There are more" in page.body()
    assert began(SESSION) == "2026-11-18 01:51:39"
    assert began("odd") == "odd"


def _job(name: str) -> dict[str, object]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {"entrypoint": "true"},
    }
