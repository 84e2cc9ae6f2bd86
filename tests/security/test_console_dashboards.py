"""Ray dashboards in the console: another origin, no cookies, only GET, with the rights of the person."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import SECRETS
from manta.console.dashboards.site import Site, label_of
from manta.console.dashboards.tickets import SECONDS, Opened, Tickets
from manta.console.sessions import Session
from manta.httpserver.messages import User
from manta.kube.transport import Request
from support.console_dashboards import DashboardConsole, dashboard_console, ready_cluster

BASE = "/api/v1/namespaces/default/services/demo-head-svc:dashboard/proxy/"


def ray(request: Request) -> tuple[int, Mapping[str, str], bytes]:
    headers = {"content-type": "text/html", "set-cookie": "ray=1", "location": "http://evil"}
    return 200, headers, b"<h1>Ray</h1>"


async def demo(console: DashboardConsole, **spec: Any) -> None:
    await ready_cluster(console.plane.client, "demo", **spec)


async def test_a_dashboard_is_shown_and_no_cookie_passes_in_either_direction() -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        browser = await console.browser()
        assert (
            "/rayclusters/default/demo/dashboard"
            in (await browser.get("/rayclusters/default/demo"))[1]
        )
        other = await console.opened(browser, "demo")
        status, text = await other.get("/api/jobs/?a=b", cookie_extra="x", authorization="Basic x")
        assert (status, text) == (200, "<h1>Ray</h1>")
        [asked] = console.asked
        assert (asked.path, asked.query) == (f"{BASE}api/jobs/", (("a", "b"),))
        assert not {"cookie", "authorization", "cookie-extra"} & set(asked.headers)
        assert other.answer is not None
        assert "Set-Cookie" not in other.answer.headers
        assert "Location" not in other.answer.headers
        assert "default-src 'self'" in other.answer.headers["Content-Security-Policy"]


async def test_the_ticket_is_in_no_referrer() -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        other = await console.opened(await console.browser(), "demo")
        assert other.answer is not None
        assert other.answer.headers["Referrer-Policy"] == "no-referrer"
        await other.get("/")
        assert other.answer.headers["Referrer-Policy"] == "same-origin"


async def test_its_origin_is_of_another_site_than_the_console() -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        browser = await console.browser()
        other = await console.opened(browser, "demo")
        assert not other.host.endswith("manta-console.localhost")
        assert not set(browser.cookies) & set(other.cookies)
        assert browser.answer is not None
        assert next(iter(browser.cookies.values())) not in browser.answer.headers["Location"]


async def test_the_cookie_of_a_dashboard_opens_no_other_one_and_not_the_console() -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        await ready_cluster(console.plane.client, "second")
        other = await console.opened(await console.browser(), "demo")
        kept = dict(other.cookies)
        other.host = console.address("second").partition("//")[2].partition(":")[0]
        assert (await other.get("/"))[0] == 401
        other.host, other.cookies = "manta-console.localhost", kept
        assert (await other.get("/"))[0] == 401
        renamed = {f"manta-console-{console.port}": value for value in kept.values()}
        other.cookies = renamed
        assert (await other.get("/"))[0] == 401
        assert not console.asked


async def test_logging_out_of_the_console_closes_its_dashboards() -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        browser, another = await console.browser(), await console.browser()
        other, kept = await console.opened(browser, "demo"), await console.opened(another, "demo")
        assert (await other.get("/"))[0] == 200
        await browser.post("/logout", {})
        assert (await other.get("/"))[0] == 401
        assert (await kept.get("/"))[0] == 200


async def test_a_stranger_and_a_ticket_that_was_used_see_nothing() -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        browser = await console.browser()
        other = await console.opened(browser, "demo")
        other.cookies = {}
        assert (await other.get("/"))[0] == 401
        assert browser.answer is not None
        used = browser.answer.headers["Location"].partition("/.manta")[2]
        assert (await other.get(f"/.manta{used}"))[0] == 401
        assert not console.asked


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/jobs/"),
        ("GET", "/api/actors/kill?actor_id=1"),
        ("GET", "/logical/kill_actor?actorId=1"),
        ("GET", "/..%2f..%2f..%2fsecrets"),
        ("GET", "/a/%2e%2e/%2e%2e/secrets"),
        ("GET", "/..%5csecrets"),
        ("GET", "/%252e%252e/secrets"),
    ],
)
async def test_only_reads_pass_and_only_to_the_dashboard(method: str, path: str) -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        other = await console.opened(await console.browser(), "demo")
        answer = await (other.post(path, {}) if method == "POST" else other.get(path))
        assert answer[0] in (400, 403)
        assert not console.asked


async def test_writes_pass_if_they_are_asked_for_and_only_from_its_own_pages() -> None:
    async with dashboard_console(ray, writes=True) as console:
        await demo(console)
        other = await console.opened(await console.browser(), "demo")
        assert (await other.post("/api/jobs/", {}, sec_fetch_site="same-site"))[0] == 403
        assert (await other.post("/api/jobs/", {}))[0] == 200
        assert [one.method for one in console.asked] == ["POST"]


async def test_a_page_of_another_dashboard_gets_no_answer() -> None:
    """Dashboards are of one site, so the browser would send the cookie."""
    async with dashboard_console(ray) as console:
        await demo(console)
        other = await console.opened(await console.browser(), "demo")
        for site in ("same-site", "cross-site"):
            assert (await other.get("/api/jobs/", sec_fetch_site=site))[0] == 403
        assert not console.asked


async def test_rays_token_is_added_by_the_server() -> None:
    async with dashboard_console(ray) as console:
        await demo(console, authOptions={"mode": "token"})
        secret = {
            "metadata": {"name": "demo"},
            "data": {"auth_token": base64.b64encode(b"rays-token").decode()},
        }
        await console.plane.client.create(SECRETS, "default", secret)
        other = await console.opened(await console.browser(), "demo")
        _, text = await other.get("/")
        assert console.asked[0].headers["x-ray-authorization"] == "Bearer rays-token"
        assert "rays-token" not in f"{text}{other.answer and other.answer.headers}"


async def test_a_cluster_that_takes_tokens_of_kubernetes_gets_none_and_the_page_says_what_to_do() -> (
    None
):
    """It could act with them: its users run its dashboard."""
    async with dashboard_console(ray) as console:
        await demo(console, authOptions={"mode": "token", "enableK8sTokenAuth": True})
        other = await console.opened(await console.browser(), "demo")
        status, text = await other.get("/")
        assert (status, console.asked) == (502, [])
        assert "kubectl port-forward -n default service/demo-head-svc 8265" in text


async def test_the_status_of_a_cluster_leads_nobody_to_another_path() -> None:
    async with dashboard_console(ray) as console:
        await demo(console)
        status = {"status": {"head": {"serviceName": "x/../../../secrets/key"}}}
        key = Key("default", "demo")
        await console.plane.client.patch(RAY_CLUSTERS, key, status, subresource="status")
        browser = await console.browser()
        async with asyncio.timeout(30):
            while "secrets/key" not in (await browser.get("/rayclusters/default/demo"))[1]:
                await asyncio.sleep(0.05)
        other = await console.opened(browser, "demo")
        assert (await other.get("/"))[0] == 502
        assert not console.asked


async def test_who_may_not_read_the_token_gets_no_dashboard() -> None:
    viewer = User("viewer", ("system:authenticated",))
    async with dashboard_console(ray, user=viewer) as console:
        await demo(console, authOptions={"mode": "token"})
        grant(console, viewer, ["rayclusters"], "ray.io", ["get", "list", "watch"])
        browser = await console.browser()
        _, text = await browser.get("/rayclusters/default/demo")
        assert "/rayclusters/default/demo/dashboard" not in text  # no services/proxy
        other = await console.opened(browser, "demo")
        status, text = await other.get("/")
        assert status == 403
        assert not console.asked


def grant(
    console: DashboardConsole, user: User, resources: list[str], group: str, verbs: list[str]
) -> None:
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    meta = {"name": "granted"}
    put = console.plane.app.put
    put(f"{rbac}/v1", "ClusterRole", {"metadata": meta, "rules": [rule]})
    binding = {
        "metadata": meta,
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "granted"},
        "subjects": [{"kind": "User", "name": user.name}],
    }
    put(f"{rbac}/v1", "ClusterRoleBinding", binding)


# ── addresses and tickets ────────────────────────────────────────────────────────────────


def test_every_cluster_has_a_label_of_its_own_that_dns_can_hold() -> None:
    keys = [
        Key("a", "b-c"),
        Key("a-b", "c"),
        Key("a", "x" * 63),
        Key("a", "with.dots"),
        Key("b", "b-c"),
    ]
    labels = [label_of(key) for key in keys]
    assert len(set(labels)) == len(labels)
    assert all(len(one) <= 63 and "." not in one for one in labels)


def test_only_names_one_below_the_domain_are_dashboards() -> None:
    site = Site("https", "dash.example")
    assert site.label("x.dash.example:443") == "x"
    for other in ("dash.example", "a.b.dash.example", "xdash.example", "dash.example.evil", ""):
        assert site.label(other) == ""


def test_a_ticket_works_once_and_for_a_minute() -> None:
    tickets, opened = Tickets(), Opened(Session(1e12, "t"), "a", "b", "b-head-svc")
    first, second = tickets.new(opened, 0.0), tickets.new(opened, 0.0)
    assert tickets.redeem(first, 1.0) == opened
    assert tickets.redeem(first, 1.0) is None
    assert tickets.redeem(second, SECONDS + 1) is None


def test_a_domain_below_the_console_is_refused() -> None:
    from urllib.parse import urlsplit

    from manta.api.usage import UsageError
    from manta.cli.server.console_shared import dashboards_of

    console = urlsplit("https://ray.example")
    with pytest.raises(UsageError, match="could set cookies"):
        dashboards_of("https://dash.ray.example", console)
    assert dashboards_of("", console) is None
    assert dashboards_of("https://dash.example", console) is not None
