"""The console in a real browser: live rows, a restart of the server, and attacks of other pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import CORE_EVENTS, PODS
from manta.console.server import LIMITS, ConsoleHandler
from manta.httpserver.handler import Handler
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.httpserver.server import HttpServer
from manta.localplane.apiserver.streaming.connector import LogOptions
from support.browser import CHROMIUM, Page, browser
from support.connector import LocalConnector
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


class _Lines(LocalConnector):
    """A Pod that writes markup to its log."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        async def lines() -> AsyncIterator[bytes]:
            yield f"{EVIL}\n".encode()

        return lines()


async def test_what_users_write_is_text_on_every_page(tmp_path: Path) -> None:
    """In annotations, entrypoints, Events, log lines and YAML; Kubernetes lets no markup into names and labels."""
    evil = {"annotations": {"evil": EVIL}}
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "job", **evil}, "spec": {"entrypoint": EVIL, "clusterSelector": {"ray.io/cluster": "demo"}}}  # fmt: skip
    labels = {"labels": {"ray.io/cluster": "demo"}}
    pod = {"metadata": {"name": "demo-head", **labels}, "spec": {"nodeName": "n", **POD["spec"]}}
    about = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo", "namespace": "default"}  # fmt: skip
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": EVIL, "message": EVIL, "type": "Warning"}  # fmt: skip
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        client = console.plane.client
        console.plane.app.connector = _Lines()
        demo = cluster("demo")
        await client.create(RAY_CLUSTERS, "default", demo | {"metadata": {"name": "demo", **evil}})
        await client.create(RAY_JOBS, "default", job)
        await client.create(PODS, "default", pod)
        await client.create(CORE_EVENTS, "default", event)
        failed = {"status": {"jobDeploymentStatus": "Failed", "message": EVIL}}
        await client.patch(RAY_JOBS, Key("default", "job"), failed, subresource="status")
        async with served(console) as (_, port):
            base = f"http://{HOST}:{port}"
            await page.open(f"{base}/login?token={console.new_link()}", "demo")
            for path, shows in (
                ("/", "<img src=x"),
                ("/events", "<img src=x"),
                ("/rayclusters/default/demo", "<img src=x"),
                ("/rayjobs/default/job", "<script>"),
                ("/pods/default/demo-head/log", "<script>"),
                ("/plan?object=/rayclusters/default/demo", "Nothing is written"),
                (f"/?q={quote(EVIL)}", "Clear"),
                (f"/{quote(EVIL)}", "Not found"),
            ):
                await page.open(f"{base}{path}", shows)
                assert await page.run("document.title") != "hacked", path
                assert await page.run("document.querySelectorAll('img[src=x]').length") == 0
            await page.open(f"{base}/plan?object=/rayclusters/default/demo", "Nothing is written")
            await page.click("Plan")
            await page.shows("What would happen")
            assert await page.run("document.title") != "hacked"


class _Growing(LocalConnector):
    """A Pod that writes its next line when it may, and ends after the last."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        async def lines() -> AsyncIterator[bytes]:
            yield b"line one\n"
            if options.follow:
                while line := await self.lines.get():
                    yield line

        return lines()


async def submitted(console: RunningConsole) -> None:
    """A job with the Pod that submits it, which runs."""
    client = console.plane.client
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": {"entrypoint": "x", "clusterSelector": {"ray.io/cluster": "demo"}}}  # fmt: skip
    await client.create(RAY_JOBS, "default", job)
    running = {"status": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "jobId": "j"}}
    await client.patch(RAY_JOBS, Key("default", "train"), running, subresource="status")
    labels = {"ray.io/originated-from-cr-name": "train", "batch.kubernetes.io/job-name": "train"}
    pod = {"metadata": {"name": "train-x", "labels": labels}, "spec": {"nodeName": "n", **POD["spec"]}}  # fmt: skip
    await client.create(PODS, "default", pod)
    container = {"name": "ray", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": "2026-11-18T11:40:00Z"}}}  # fmt: skip
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    await client.patch(PODS, Key("default", "train-x"), status, subresource="status")


async def test_the_page_of_a_job_shows_its_log_as_it_grows_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        console.plane.app.connector = growing = _Growing()
        await submitted(console)
        async with served(console) as (_, port):
            base = f"http://{HOST}:{port}"
            await page.open(f"{base}/login?token={console.new_link()}", "train")
            await page.open(f"{base}/rayjobs/default/train", "line one")
            growing.lines.put_nowait("line two: \u00e9\n".encode()[:-2])  # inside of a character
            growing.lines.put_nowait("\u00e9\n".encode()[1:])
            await page.shows("line two: \u00e9")
        await page.shows("Connection lost")
        async with served(console, port):
            growing.lines.put_nowait(b"line three\n")
            await page.shows("line three")
            assert "Connection lost" not in await page.text()
            growing.lines.put_nowait(b"")
            ended = {"status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}
            await console.plane.client.patch(
                RAY_JOBS, Key("default", "train"), ended, subresource="status"
            )
            await page.shows("finished")
        assert "line three" in await page.text()
        async with served(console, port):
            streams = [one for one in page.requests if "/stream?" in one]
            async with asyncio.timeout(30):
                while len(now := [one for one in page.requests if "/stream?" in one]) == len(
                    streams
                ):
                    await asyncio.sleep(0.1)
        assert "&log=1" in streams[-1]
        assert "&log=1" not in now[-1]  # it has ended
        assert [one for one in page.requests if "follow=1" in one] == []  # one connection for both
        assert "line three" in await page.text()


class _OtherSite(Handler):
    """A page of another site, which keeps the headers of its visitors."""

    def __init__(self, page: str) -> None:
        self._page = page
        self.headers: list[Mapping[str, str]] = []

    async def handle(self, request: HttpRequest) -> HttpResponse:
        self.headers.append(request.headers)
        return HttpResponse(200, self._page.encode(), content_type="text/html")


def form(target: str, uid: str) -> str:
    return (
        f'<p>other site</p><form method=post action="{target}"><input name=uid value="{uid}">'
        "</form><script>document.forms[0].submit()</script>"
    )


def requests(base: str, uid: str) -> str:
    """Everything that a script can send without the consent of the console."""
    target = f"{base}/rayclusters/default/demo/delete"
    return f"""<p>other site</p><script>
      const sent = ["cors", "no-cors"].flatMap((mode) => ["POST", "DELETE", "PUT"].map((method) =>
        fetch("{target}", {{method, mode, credentials: "include", body: new URLSearchParams({{uid: "{uid}"}})}})
          .then(() => "", () => "")));
      sent.push(fetch("{base}/", {{credentials: "include"}}).then((found) => found.text(), () => ""));
      Promise.all(sent).then((all) => document.body.append("done; read " + all.join("").length));
    </script>"""


async def test_a_form_of_another_site_deletes_nothing(tmp_path: Path) -> None:
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        made = await console.plane.client.create(RAY_CLUSTERS, "default", cluster("demo"))
        async with served(console) as (_, port):
            base = f"http://{HOST}:{port}"
            await page.open(f"{base}/login?token={console.new_link()}", "demo")
            target = f"{base}/rayclusters/default/demo/delete"
            other = HttpServer(_OtherSite(form(target, made.metadata.uid)))
            there = await other.start("127.0.0.1", 0)
            try:
                await page.open(f"http://127.0.0.1:{there}/", "does not come from this console")
            finally:
                await other.stop(grace_seconds=0.1)
            await console.plane.client.get(RAY_CLUSTERS, Key("default", "demo"))


async def test_scripts_of_another_site_delete_and_read_nothing(tmp_path: Path) -> None:
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        made = await console.plane.client.create(RAY_CLUSTERS, "default", cluster("demo"))
        async with served(console) as (_, port):
            base = f"http://{HOST}:{port}"
            await page.open(f"{base}/login?token={console.new_link()}", "demo")
            other = HttpServer(_OtherSite(requests(base, made.metadata.uid)))
            there = await other.start("127.0.0.1", 0)
            try:
                for name in (
                    "127.0.0.1",
                    "other.localhost",
                ):  # another site, and one of the same site
                    await page.open(f"http://{name}:{there}/", "done; read 0")
            finally:
                await other.stop(grace_seconds=0.1)
            await console.plane.client.get(RAY_CLUSTERS, Key("default", "demo"))


async def test_the_token_of_the_link_is_in_no_address_referrer_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        other = _OtherSite("<p>other site")
        server = HttpServer(other)
        there = await server.start("127.0.0.1", 0)
        try:
            async with served(console) as (_, port):
                token = console.new_link()
                await page.open(f"http://{HOST}:{port}/login?token={token}", "No Ray objects yet")
                assert await page.run("location.href") == f"http://{HOST}:{port}/"
                assert await page.run("document.referrer") == ""
                assert [one for one in page.requests if token in one] == page.requests[:1]
                await page.run(f"location.href = 'http://127.0.0.1:{there}/'")
                await page.shows("other site")
        finally:
            await server.stop(grace_seconds=0.1)
        assert "referer" not in other.headers[0]
        assert token not in caplog.text


async def test_a_form_names_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Browsers without Sec-Fetch-Site are told apart by it alone."""
    origins: list[str] = []
    answer = ConsoleHandler.handle

    async def handle(handler: ConsoleHandler, request: HttpRequest) -> HttpResponse:
        if request.method == "POST":
            origins.append(request.headers["origin"])
        return await answer(handler, request)

    monkeypatch.setattr(ConsoleHandler, "handle", handle)
    async with (
        running_console(log_in=False, kinds=False) as console,
        browser(tmp_path, {}) as [page],
        served(console) as (_, port),
    ):
        await page.open(f"http://{HOST}:{port}/login?token={console.new_link()}", "Log out")
        await page.click("Log out")
        await page.shows("Log in")
        assert origins == [f"http://{HOST}:{port}"]


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
