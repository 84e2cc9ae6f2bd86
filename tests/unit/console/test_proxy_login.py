"""Behind a proxy that has logged people in: whom the console impersonates, and whom it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from manta.api.usage import UsageError
from manta.cli.server.console_logins import logout_of
from manta.console.login.proxy import Proxy, ProxyLogin
from manta.console.sessions import Session
from manta.httpserver.messages import HttpRequest
from manta.kube.transport import HttpTransport
from support.shared_console import READ, account, namespace, shared_console

SECRET = "p" * 40
LOGIN = ProxyLogin(Proxy(SECRET))


def session(**headers: str) -> Session | None:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return LOGIN.session(HttpRequest("GET", "/", (), given), None, 0.0)


def test_the_proxy_names_the_user_and_the_groups() -> None:
    found = session(
        x_manta_proxy_secret=SECRET, x_forwarded_user="ada", x_forwarded_groups="a, b,a"
    )
    assert found is not None
    assert (found.user, found.groups, found.token) == ("ada", ("a", "b"), "")


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_user": "ada"},
        {"x_forwarded_user": "ada", "x_manta_proxy_secret": SECRET[:-1]},
        {"x_manta_proxy_secret": SECRET},
        {"x_manta_proxy_secret": SECRET, "x_forwarded_user": "system:admin"},
        {"x_manta_proxy_secret": SECRET, "x_forwarded_user": "admin, ada"},
        {"x_manta_proxy_secret": SECRET, "x_forwarded_user": "a" * 300},
        {
            "x_manta_proxy_secret": SECRET,
            "x_forwarded_user": "ada",
            "x_forwarded_groups": "team,system:masters",
        },
    ],
)
def test_nobody_is_impersonated(headers: dict[str, str]) -> None:
    assert session(**headers) is None


async def test_kubernetes_sees_the_user_of_the_proxy(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    flags = ("--proxy-secret-file", str(tmp_path / "secret"))
    async with shared_console(tmp_path, *flags, login="proxy") as shared:
        await namespace(shared.plane.client, "team-a")
        await account(shared.plane.client, "reader", READ)
        name = "system:serviceaccount:default:reader"
        browser = shared.browser()
        browser.headers = {"x-forwarded-user": "ada", "x-forwarded-groups": "team"}
        assert (await browser.get("/"))[0] == 401
        browser.headers["x-manta-proxy-secret"] = SECRET
        status, text = await browser.get("/")
        assert status == 200
        assert "ada" in text
        assert "you may not list rayclusters.ray.io" in text
        assert not browser.cookies
        browser.headers["x-forwarded-user"] = name
        assert (await browser.get("/"))[0] == 401  # reserved names are of Kubernetes
        assert (await browser.post("/logout", {}, sec_fetch_site="cross-site"))[0] == 403


@pytest.mark.parametrize("to", ["/oauth2/sign_out?rd=%2F", "https://login.example/out", ""])
async def test_the_logout_is_the_proxys(tmp_path: Path, to: str) -> None:
    (tmp_path / "secret").write_text(SECRET)
    flags = ("--proxy-secret-file", str(tmp_path / "secret"), "--proxy-logout", to)
    async with shared_console(tmp_path, *flags, login="proxy") as shared:
        browser = shared.browser()
        browser.headers = {"x-forwarded-user": "ada", "x-manta-proxy-secret": SECRET}
        assert ("Log out" in (await browser.get("/"))[1]) is bool(to)
        status, text = await browser.post("/logout", {})
        assert browser.answer is not None
        if to:
            assert (status, browser.answer.headers["Refresh"]) == (200, f"0; url={to}")
        else:
            assert (status, "Log out at the proxy" in text) == (405, True)


@pytest.mark.parametrize("wrong", ["//evil.example", "/\\evil", "http://proxy.example", "a b", "x"])
def test_an_address_that_is_no_logout_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="--proxy-logout"):
        logout_of(wrong)


def test_a_session_without_rights_has_no_client() -> None:
    from manta.cli.server.console_shared import connector
    from manta.kube.cluster import Cluster, User

    own = Cluster("https://127.0.0.1:1", User("own", token="the console's"))
    connect = connector(own, None)
    with pytest.raises(ValueError, match="no rights"):
        connect(Session(1.0))
    for given in (Session(1.0, "theirs"), Session(1.0, user="ada", groups=("team",))):
        transport = connect(given)._executor.transport
        assert isinstance(transport, HttpTransport)
        user = transport.cluster.user
        if given.token:
            assert (user.token, dict(user.headers)) == ("theirs", {})
        else:
            assert dict(user.headers) == {"impersonate-user": "ada"}
            assert user.repeated == (("impersonate-group", "team"),)
