"""Requests to a console on the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import cast

import msgspec

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import PODS
from manta.console.sessions import Session
from manta.console.visitors import Visitor, Visitors
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.kube.errors import Unauthorized, Unreachable
from manta.localplane.apiserver.streaming.connector import LogOptions
from manta.runtime.clock import SystemClock
from support.connector import LocalConnector
from support.console import HOST, RunningConsole, running_console

CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "demo"},
    "spec": {
        "rayVersion": "2.52.0",
        "headGroupSpec": {
            "rayStartParams": {},
            "template": {"spec": {"containers": [{"name": "ray", "image": "ray"}]}},
        },
    },
}


def text(answer: HttpResponse) -> str:
    return cast("bytes", answer.body).decode()


async def test_the_fleet_shows_an_object_of_the_server() -> None:
    async with running_console() as console:
        await console.plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
        answer = await console.get("/")
        assert answer.status == 200
        assert "/rayclusters/default/demo" in text(answer)


async def test_a_stream_sends_the_row_of_a_new_object() -> None:
    async with running_console() as console:
        await console.get("/")
        answer = await console.get("/stream", "page=%2F")
        body = cast("AsyncIterator[bytes]", answer.body)
        assert await anext(body) == b"retry: 1000\n\n"
        assert b"fleet" in await anext(body)
        await console.plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
        async with asyncio.timeout(20):
            while b"/rayclusters/default/demo" not in (sent := await anext(body)):
                assert sent
        await body.aclose()  # type: ignore[attr-defined]
        change = msgspec.json.decode(sent.removeprefix(b"data: "))
        uid = (await console.plane.client.get(RAY_CLUSTERS, Key("default", "demo")))["metadata"][
            "uid"
        ]
        assert change["fleet"]["order"] == [f"object-{uid}"]


async def test_a_user_without_rights_sees_the_reason_instead_of_objects() -> None:
    from manta.httpserver.messages import User

    nobody = User("nobody", ("system:authenticated",))
    async with running_console(user=nobody) as console:
        assert "you may not list rayclusters.ray.io" in text(await console.get("/"))


async def test_an_unknown_page_is_not_found() -> None:
    async with running_console() as console:
        assert (await console.get("/rayclusters/default/none")).status == 404
        assert (await console.get("/nonsense")).status == 404


def test_all_scripts_together_have_at_most_150_kb() -> None:
    static = files("manta.console") / "static"
    sizes = [len(one.read_bytes()) for one in static.iterdir() if one.name.endswith(".js")]
    assert 0 < sum(sizes) <= 150_000


async def test_static_files_have_their_type_and_no_other_file_is_served() -> None:
    async with running_console(kinds=False, log_in=False) as console:
        style = await console.get("/static/console.css")
        assert (style.status, style.content_type) == (200, "text/css; charset=utf-8")
        assert (await console.get("/static/../server.py")).status == 404


# ── login ────────────────────────────────────────────────────────────────────────────────


async def test_a_stranger_sees_nothing() -> None:
    async with running_console(kinds=False, log_in=False) as console:
        for path in ("/", "/rayclusters/default/demo", "/stream", "/plan"):
            assert (await console.get(path)).status == 401


async def navigated(console: RunningConsole, path: str, site: str = "none") -> HttpResponse:
    """What a browser gets that somebody sends to this address."""
    headers = {"host": HOST, "sec-fetch-mode": "navigate", "sec-fetch-site": site}
    if console.cookie:
        headers["cookie"] = console.cookie
    return await console.handler.handle(HttpRequest("GET", path, (("q", "a b"),), headers))


async def test_a_browser_without_a_login_is_led_to_it_without_an_error() -> None:
    async with running_console(kinds=False, log_in=False) as console:
        answer = await navigated(console, "/rayclusters/default/demo")
        assert (answer.status, dict(answer.headers)["Location"]) == (303, "/login")
        assert (await console.get("/login")).status == 200
        assert text(await console.get("/session")) == "out"


async def test_a_link_of_another_site_is_opened_once_more_from_here() -> None:
    """Its request comes without the cookie, which is SameSite=Strict."""
    async with running_console(kinds=False, log_in=False) as console:
        answer = await navigated(console, "/rayclusters/default/a\r\nb", "cross-site")
        to = "/rayclusters/default/a%0D%0Ab?q=a+b"
        assert (answer.status, dict(answer.headers)["Refresh"]) == (200, f"0; url={to}")
        for away in ("//evil.example/", "/rayclusters/default/demo/dashboard", "/history/open"):
            answer = await navigated(console, away, "cross-site")
            assert dict(answer.headers)["Location"] == "/login", away


async def test_the_log_of_an_odd_address_is_a_page_that_leads_nowhere_else() -> None:
    async with running_console(kinds=False) as console:
        for path in ("//evil.example/a/b/log", "/pods/a b/c\\d/log", "/pods/a\t/\n/log"):
            answer = await console.get(path)
            assert answer.status < 500, path
            assert 'href="//' not in text(answer)


async def test_the_link_logs_in_once() -> None:
    async with running_console(kinds=False, log_in=False) as console:
        token = console.new_link()
        first = await console.get("/login", f"token={token}")
        again = await console.get("/login", f"token={token}")
        assert (first.status, again.status) == (200, 401)
        cookie = dict(first.headers)["Set-Cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        assert token not in cookie
        assert token not in text(first)


async def test_looking_at_the_link_does_not_use_it_up() -> None:
    """A preview of a chat program asks with HEAD."""
    async with running_console(kinds=False, log_in=False) as console:
        token = console.new_link()
        query = (("token", token),)
        looked = await console.handler.handle(HttpRequest("HEAD", "/login", query, {"host": HOST}))
        assert looked.status == 401
        assert (await console.get("/login", f"token={token}")).status == 200


async def test_a_401_of_the_server_keeps_the_login_of_the_link() -> None:
    """The link was used: without the cookie nobody could come back."""

    class Refusing(Visitors):
        async def of(self, session: Session, *, login: bool = False) -> Visitor:
            raise Unauthorized(401, "Unauthorized", "the token has expired")

    async with running_console(kinds=False) as console:
        console.handler._visitors = Refusing(lambda _: console.plane.client, SystemClock())
        answer = await console.get("/")
        assert answer.status == 502
        assert "the token has expired" in text(answer)
        assert "Set-Cookie" not in dict(answer.headers)


async def test_a_page_that_the_api_server_cannot_answer_tries_again_by_itself() -> None:
    class Down(Visitors):
        async def of(self, session: Session, *, login: bool = False) -> Visitor:
            raise Unreachable("connection refused", sent=False)

    async with running_console(kinds=False) as console:
        console.handler._visitors = Down(lambda _: console.plane.client, SystemClock())
        answer = await console.get("/")
        assert (answer.status, dict(answer.headers)["Refresh"]) == (502, "10")
        assert "Refresh" not in dict((await console.post("/plan", b"yaml=")).headers)


async def test_a_forged_cookie_is_a_stranger() -> None:
    async with running_console(kinds=False) as console:
        name, _, value = console.cookie.partition("=")
        middle = len(value) // 2
        other = "A" if value[middle] != "A" else "B"
        console.cookie = f"{name}={value[:middle]}{other}{value[middle + 1 :]}"
        assert (await console.get("/")).status == 401


async def test_logging_out_removes_the_cookie() -> None:
    async with running_console(kinds=False) as console:
        answer = await console.post("/logout")
        assert answer.status == 303
        assert "Max-Age=0" in dict(answer.headers)["Set-Cookie"]


async def test_an_unsafe_request_of_another_site_is_refused() -> None:
    async with running_console(kinds=False) as console:
        for headers in (
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site"},
            {"sec_fetch_site": "none"},
            {"sec_fetch_site": "cross-site", "origin": f"http://{HOST}"},
        ):
            assert (await console.post("/logout", b"", **headers)).status == 403


async def test_an_old_browser_must_name_this_host_as_origin() -> None:
    from manta.console.sessions import is_same_origin

    assert is_same_origin({"origin": f"http://{HOST}", "host": HOST})
    assert not is_same_origin({"origin": "http://evil.example", "host": HOST})
    assert not is_same_origin({"host": HOST})


async def test_every_page_has_a_strict_policy_and_sends_no_referrer_to_other_sites() -> None:
    async with running_console(kinds=False) as console:
        headers = dict(console.handler.default_headers)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "same-origin"


async def test_the_log_of_each_container_of_a_pod_can_be_read() -> None:
    class Named(LocalConnector):
        async def logs(
            self, namespace: str, pod: str, container: str, options: LogOptions
        ) -> AsyncIterator[bytes]:
            async def lines() -> AsyncIterator[bytes]:
                yield f"written by {container}\n".encode()

            return lines()

    containers = [{"name": name, "image": "i"} for name in ("ray-head", "autoscaler")]
    pod = {
        "metadata": {"name": "head", "labels": {"ray.io/cluster": "demo"}},
        "spec": {"nodeName": "n", "containers": containers},
    }
    async with running_console() as console:
        console.plane.app.connector = Named()
        await console.plane.client.create(PODS, "default", pod)
        here = "/pods/default/head/log"
        async with asyncio.timeout(20):
            while "?container=autoscaler" not in text(await console.get(here)):
                await asyncio.sleep(0.02)
        assert "written by ray-head" in text(await console.get(here))
        assert "written by autoscaler" in text(await console.get(here, "container=autoscaler"))
        other = await console.get(here, "container=nonsense")  # not of this Pod
        assert "written by ray-head" in text(other)


async def test_the_download_of_a_log_that_is_not_there_says_so() -> None:
    """A download that breaks off says nothing: the browser stays on the page before."""
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": {"entrypoint": "x", "clusterSelector": {"ray.io/cluster": "demo"}}}  # fmt: skip
    async with running_console() as console:
        await console.plane.client.create(RAY_JOBS, "default", job)
        for path, words in (
            ("/rayjobs/default/train/log", "has no log yet"),
            ("/rayjobs/default/gone/log", "not found"),
            ("/pods/default/gone/log", "not found"),
        ):
            answer = await console.get(path, "download=1")
            assert (answer.status, words in text(answer)) == (404, True)


async def test_a_form_with_thousands_of_fields_is_refused() -> None:
    async with running_console(kinds=False) as console:
        answer = await console.post("/plan", b"a=1&" * 101)
        assert answer.status == 400
        assert "more than 100 fields" in text(answer)
