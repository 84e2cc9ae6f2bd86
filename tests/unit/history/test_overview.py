"""The page of all sessions: pages, filters, and links to the clusters that run now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from manta.api.usage import UsageError
from manta.cli.server.live_clusters import check_dashboards
from manta.history.layout import SessionKey
from manta.history.serve import overview
from manta.history.serve.access import OwnerAccess
from manta.history.serve.overview import Live, LiveCluster
from manta.history.serve.server import HistoryHandler
from manta.httpserver.messages import HttpRequest
from manta.kube.errors import Unreachable
from support.history import SESSION, recorded_session

NAMES = ("a", "b", "c")


async def page(handler: HistoryHandler, token: str, query: str = "") -> str:
    headers = {"authorization": f"Bearer {token}"}
    request = HttpRequest("GET", "/history/", tuple(parse_qsl(query)), headers)
    answer = await handler.handle(request)
    assert answer.status == 200
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def owned(tmp_path: Path, live: Live | None = None) -> tuple[HistoryHandler, str]:
    catalog = recorded_session(tmp_path)
    for name in NAMES:
        catalog.store.create(SessionKey("team", "raycluster", name, SESSION).metadata, b"{}")
    access = OwnerAccess()
    return HistoryHandler(catalog, access, [], secure=False, live=live), access.token


async def test_sessions_are_listed_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "PAGE_ROWS", 2)
    handler, token = owned(tmp_path)
    first = await page(handler, token)
    second = await page(handler, token, "offset=2")
    assert [name in first for name in ("train", ">a<", ">b<", ">c<")] == [True, True, False, False]
    assert [name in second for name in ("train", ">b<", ">c<")] == [False, True, True]
    assert "/history/?offset=2" in first
    assert ("next page" in second, "/history/?offset=0" in second) == (False, True)


@pytest.mark.parametrize(
    ("query", "shows"),
    [
        ("namespace=default", {"train"}),
        ("kind=raycluster", {">a<", ">b<", ">c<"}),
        ("namespace=team&name=b", {">b<"}),
        ("name=none", set()),
        ("namespace=../x", set()),
        ("name=..", set()),
        ("kind=rayjob&name=../x", set()),
        ("name=%0A", set()),
        ("offset=x", {"train", ">a<", ">b<", ">c<"}),
    ],
)
async def test_sessions_are_filtered(tmp_path: Path, query: str, shows: set[str]) -> None:
    handler, token = owned(tmp_path)
    found = await page(handler, token, query)
    assert {one for one in ("train", ">a<", ">b<", ">c<") if one in found} == shows


async def test_a_filter_cannot_write_into_the_page(tmp_path: Path) -> None:
    handler, token = owned(tmp_path)
    assert "<script" not in await page(handler, token, 'name="><script>alert(1)</script>')


async def test_running_clusters_are_linked_or_named_with_a_command(tmp_path: Path) -> None:
    async def live(_token: str, namespaces: Sequence[str]) -> list[LiveCluster]:
        assert namespaces == ["default", "team"]
        here = LiveCluster("default", "here", "http://10.0.0.1:8265/", "unused")
        return [here, LiveCluster("default", "there", "", "manta dashboard there -n default")]

    handler, token = owned(tmp_path, live)
    found = await page(handler, token)
    assert '<a href="http://10.0.0.1:8265/"' in found
    assert "<code>manta dashboard there -n default</code>" in found


@pytest.mark.parametrize("error", [Unreachable("no route", sent=False), TimeoutError()])
async def test_sessions_are_shown_when_running_clusters_cannot_be_listed(
    tmp_path: Path, error: Exception
) -> None:
    async def live(_token: str, _namespaces: Sequence[str]) -> list[LiveCluster]:
        raise error

    handler, token = owned(tmp_path, live)
    found = await page(handler, token)
    assert "cannot be listed" in found
    assert "train" in found


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("https://h/{cluster}", "only {namespace} and {name}"),
        ("https://h/{", "only {namespace}"),
        ("{name}", "must begin with http"),
        ("javascript:alert(1)", "must begin with http"),
    ],
)
def test_an_address_of_dashboards_that_cannot_work_is_refused(template: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_dashboards(template)
