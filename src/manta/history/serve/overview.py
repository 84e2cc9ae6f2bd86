"""The page of all sessions that a caller may read, and of the clusters that run now.

A running cluster is linked to its own dashboard, never proxied: what it answers is not history.
"""

from __future__ import annotations

import asyncio
import html
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.history.catalog import Catalog
from manta.history.layout import SessionKey
from manta.history.serve.access import Access
from manta.httpserver.messages import HttpRequest, HttpResponse, User, json_response
from manta.kube.client import Client
from manta.kube.errors import Forbidden, MantaError, NotFound

log = logging.getLogger(__name__)

PREFIX: Final = "/history/"
PAGE_ROWS: Final = 500
_LIVE_ROWS: Final = 100
_LIVE_SECONDS: Final = 5.0
_FILTERS: Final = ("namespace", "kind", "name")


class LiveCluster(NamedTuple):
    namespace: str
    name: str
    url: str = ""
    """The address of its dashboard; empty if browsers cannot reach it."""
    command: str = ""
    """The command that opens the dashboard."""


Live = Callable[[str, Sequence[str]], Awaitable[Sequence[LiveCluster]]]
"""The clusters that the bearer of a token may list: in all namespaces, else in these."""


async def running_clusters(client: Client, namespaces: Sequence[str]) -> list[RayCluster]:
    """Clusters with a head Pod: of all namespaces if the client's user may list them, else of these."""
    try:
        found = (await client.list(RAY_CLUSTERS, into=RayCluster)).items
    except NotFound:  # the kinds of Ray are not installed here
        return []
    except Forbidden:
        found = []
        for namespace in namespaces:
            try:
                found += (await client.list(RAY_CLUSTERS, namespace, into=RayCluster)).items
            except Forbidden:
                continue
    return [one for one in found if one.status.head.pod_name]


class Overview:
    def __init__(self, catalog: Catalog, access: Access, live: Live | None) -> None:
        self._catalog = catalog
        self._access = access
        self._live = live

    async def page(self, request: HttpRequest, user: User, token: str) -> HttpResponse:
        namespaces = await asyncio.to_thread(self._catalog.namespaces)
        as_json = request.param("format") == "json"
        live = "" if as_json else await self._live_part(token, namespaces)
        wanted = {name: request.param(name) for name in _FILTERS if request.param(name)}
        offset = _number(request.param("offset"))
        if "namespace" in wanted:
            namespaces = [one for one in namespaces if one == wanted["namespace"]]
        found: list[SessionKey] = []
        more, skipped = False, 0
        async for key in self._readable(user, namespaces, wanted):
            if skipped < offset:
                skipped += 1
            elif len(found) == PAGE_ROWS:
                more = True
                break
            else:
                found.append(key)
        if as_json:
            return json_response(200, {"sessions": [one._asdict() for one in found], "more": more})
        rows = [_session_row(one) for one in found]
        return html_page(
            200, "History", live + _form(wanted) + _sessions(rows, offset, wanted, more=more)
        )

    async def _readable(
        self, user: User, namespaces: Sequence[str], wanted: dict[str, str]
    ) -> AsyncIterator[SessionKey]:
        kind, name = wanted.get("kind", ""), wanted.get("name", "")
        for namespace in namespaces:
            found = await asyncio.to_thread(
                lambda one: list(self._catalog.sessions(one, kind, name)), namespace
            )
            for key in found:
                if await self._access.may_read(user, key):
                    yield key

    async def _live_part(self, token: str, namespaces: Sequence[str]) -> str:
        if self._live is None:
            return ""
        try:
            async with asyncio.timeout(_LIVE_SECONDS):
                found = await self._live(token, namespaces)
        except (MantaError, TimeoutError) as error:
            log.warning("running clusters: %r", error)
            return "<p>The clusters that run now cannot be listed at the moment.</p>"
        if not found:
            return ""
        rows = [_live_row(one) for one in found[:_LIVE_ROWS]]
        left = len(found) - len(rows)
        return (
            "<h2>Running now</h2>"
            + _table(("namespace", "cluster", "dashboard"), rows)
            + (f"<p>And {left} more.</p>" if left else "")
            + "<h2>Sessions</h2>"
        )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _session_row(key: SessionKey) -> str:
    link = f'<a href="{PREFIX}{quote(key.path)}/">{html.escape(key.session)}</a>'
    return _row([*map(html.escape, key[:3]), link])


def _live_row(one: LiveCluster) -> str:
    where = f"<code>{html.escape(one.command)}</code>"
    if one.url:
        where = f'<a href="{html.escape(one.url)}" rel=noreferrer>{html.escape(one.url)}</a>'
    return _row([html.escape(one.namespace), html.escape(one.name), where])


def _row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{one}</td>' for one in cells)}</tr>"


def _table(names: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{one}</th>" for one in names)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _form(wanted: dict[str, str]) -> str:
    fields = "".join(
        f'<input name={name} placeholder={name} value="{html.escape(wanted.get(name, ""))}"> '
        for name in _FILTERS
    )
    return f'<form action="{PREFIX}">{fields}<button>Filter</button></form>'


def _sessions(rows: Sequence[str], offset: int, wanted: dict[str, str], *, more: bool) -> str:
    if not rows:
        return "<p>No session that you may read.</p>"
    links = []
    if offset:
        links.append(_page_link(max(offset - PAGE_ROWS, 0), wanted, "previous page"))
    if more:
        links.append(_page_link(offset + PAGE_ROWS, wanted, "next page"))
    body = _table(("namespace", "kind", "name", "session"), rows)
    return body + (f"<p>{' '.join(links)}</p>" if links else "")


def _page_link(offset: int, wanted: dict[str, str], text: str) -> str:
    query = urlencode({**wanted, "offset": offset})
    return f'<a href="{PREFIX}?{html.escape(query)}">{text}</a>'


def html_page(
    status: int, title: str, body: str, headers: tuple[tuple[str, str], ...] = ()
) -> HttpResponse:
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8>"
        f"<meta name=viewport content='width=device-width'><title>{title}</title>"
        "<style>body{font:16px sans-serif;margin:1.5em;overflow-wrap:anywhere}td,th{text-align:left;padding:.2em 1em .2em 0}"
        "table{display:block;overflow-x:auto}button,input{font:inherit;min-height:28px;max-width:100%;margin:.2em 0}</style>"
        f"<main><h1>{title}</h1>{body}</main></html>"
    )
    return HttpResponse(status, text.encode(), headers, content_type="text/html; charset=utf-8")
