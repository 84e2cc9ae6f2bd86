"""The console in a real browser: live rows, a restart of the server, and attacks of other pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.console.server import LIMITS
from manta.httpserver.handler import Handler
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.httpserver.server import HttpServer
from support.browser import CHROMIUM, Page, browser
from support.console import RunningConsole, running_console

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium")
HOST = "manta-console.localhost"
EVIL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
POD = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}


def cluster(name: str) -> dict[str, Any]:
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": POD}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": spec,
    }


@asynccontextmanager
async def served(console: RunningConsole, port: int = 0) -> AsyncIterator[tuple[HttpServer, int]]:
    server = HttpServer(console.handler, frozenset({HOST}), LIMITS)
    bound = await server.start("127.0.0.1", port)
    try:
        yield server, bound
    finally:
        await server.stop(grace_seconds=0.1)


async def shows(page: Page, words: str) -> None:
    async with asyncio.timeout(30):
        while words not in await page.text():
            await asyncio.sleep(0.1)


async def test_rows_appear_by_themselves_also_after_a_restart_of_the_server(tmp_path: Path) -> None:
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        client = console.plane.client
        async with served(console) as (_, port):
            link = f"http://{HOST}:{port}/login?token={console.new_link()}"
            await page.open(link, "No Ray objects yet")
            await client.create(RAY_CLUSTERS, "default", cluster("first"))
            await shows(page, "first")
        await shows(page, "Connection lost")
        await client.create(RAY_CLUSTERS, "default", cluster("second"))
        async with served(console, port):
            await shows(page, "second")
        lost = "net::ERR_"  # the browser reports each connection that broke
        assert [one for one in page.failures if lost not in one] == []


async def test_a_message_with_markup_is_shown_as_text(tmp_path: Path) -> None:
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        client = console.plane.client
        await client.create(RAY_CLUSTERS, "default", cluster("demo"))
        blocked = {
            "type": "Blocked",
            "status": "True",
            "reason": "Evil",
            "message": EVIL,
            "lastTransitionTime": "2026-11-18T11:40:00Z",
        }
        async with served(console) as (_, port):
            base = f"http://{HOST}:{port}"
            await page.open(f"{base}/login?token={console.new_link()}", "demo")
            status = {"status": {"conditions": [blocked]}}
            await client.patch(RAY_CLUSTERS, Key("default", "demo"), status, subresource="status")
            await shows(page, "<img src=x")  # merged into the open page
            await page.open(f"{base}/rayclusters/default/demo", "<img src=x")
            found = await page.call("Runtime.evaluate", expression="document.title")
            assert found["result"]["value"] == "demo · Manta"


class _OtherSite(Handler):
    """A page of another site that sends a form to the console."""

    def __init__(self, target: str, uid: str) -> None:
        self._form = (
            f'<p>other site</p><form method=post action="{target}"><input name=uid value="{uid}">'
            "</form><script>document.forms[0].submit()</script>"
        )

    async def handle(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, self._form.encode(), content_type="text/html")


async def test_a_form_of_another_site_deletes_nothing(tmp_path: Path) -> None:
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        made = await console.plane.client.create(RAY_CLUSTERS, "default", cluster("demo"))
        async with served(console) as (_, port):
            base = f"http://{HOST}:{port}"
            await page.open(f"{base}/login?token={console.new_link()}", "demo")
            target = f"{base}/rayclusters/default/demo/delete"
            other = HttpServer(_OtherSite(target, made.metadata.uid))
            there = await other.start("127.0.0.1", 0)
            try:
                await page.open(f"http://127.0.0.1:{there}/", "does not come from this console")
            finally:
                await other.stop(grace_seconds=0.1)
            await console.plane.client.get(RAY_CLUSTERS, Key("default", "demo"))


async def test_another_name_for_this_machine_is_not_served(tmp_path: Path) -> None:
    """DNS rebinding: a page of another name that resolves to 127.0.0.1."""
    async with (
        running_console(log_in=False, kinds=False) as console,
        browser(tmp_path, {}) as [page],
        served(console) as (_, port),
    ):
        token = console.new_link()
        await page.open(f"http://evil.localhost:{port}/login?token={token}", "is not served here")
        assert console.links.redeem(token, time.time())  # nobody has used it
