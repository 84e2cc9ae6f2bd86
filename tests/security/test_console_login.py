"""A console for many people on the embedded plane: Kubernetes decides what each of them sees and does."""

from __future__ import annotations

import base64
import logging
import zlib
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import SERVICE_ACCOUNTS
from manta.console import visitors
from manta.kube.errors import NotFound
from manta.runtime.clock import SystemClock
from support.shared_console import (
    READ,
    WRITE,
    Browser,
    Shared,
    account,
    namespace,
    shared_console,
)

POD = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
A, B = "/rayclusters/team-a/one", "/rayclusters/team-b/two"


def cluster(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {"headGroupSpec": {"rayStartParams": {}, "template": POD}},
    }


async def two_teams(shared: Shared) -> str:
    """A cluster in each of two namespaces; the uid of the first."""
    client = shared.plane.client
    for team, name in (("team-a", "one"), ("team-b", "two")):
        await namespace(client, team)
        await client.create(RAY_CLUSTERS, team, cluster(name))
    found = await client.get(RAY_CLUSTERS, Key("team-a", "one"))
    return str(found["metadata"]["uid"])


async def logged_in(shared: Shared, token: str, namespaces: str = "") -> Browser:
    browser = shared.browser()
    assert await browser.log_in(token, namespaces) == 200
    return browser


async def test_three_users_see_and_do_what_kubernetes_allows_them(tmp_path: Path) -> None:
    async with shared_console(tmp_path) as shared:
        uid = await two_teams(shared)
        client = shared.plane.client
        admin = await logged_in(shared, await account(client, "boss", WRITE))
        editor = await logged_in(shared, await account(client, "ed", WRITE, "team-a"), "team-a")
        viewer = await logged_in(shared, await account(client, "vi", READ, "team-a"), "team-a")

        for who, first, second in ((admin, 200, 200), (editor, 200, 404), (viewer, 200, 404)):
            assert (await who.get(A))[0] == first
            assert (await who.get(B))[0] == second
        assert "system:serviceaccount:default:ed" in (await editor.get("/"))[1]
        assert B not in (await editor.get("/"))[1]
        assert f"{A}/delete" in (await editor.get(A))[1]
        assert f"{A}/delete" not in (await viewer.get(A))[1]

        assert (await viewer.post(f"{A}/delete", {"uid": uid}))[0] == 400
        await client.get(RAY_CLUSTERS, Key("team-a", "one"))  # it is still there
        assert (await editor.post(f"{A}/delete", {"uid": uid}))[0] == 303
        with pytest.raises(NotFound):
            await client.get(RAY_CLUSTERS, Key("team-a", "one"))


async def test_a_token_that_kubernetes_refuses_logs_nobody_in(tmp_path: Path) -> None:
    async with shared_console(tmp_path) as shared:
        browser = shared.browser()
        for wrong in ("nonsense", "a.b.c", "", "two words", "x" * 20_000):
            assert await browser.log_in(wrong) in (400, 401, 413)
            assert not browser.cookies
        assert (await browser.get("/"))[0] == 401


async def test_the_console_itself_has_no_rights_to_give(tmp_path: Path) -> None:
    """The kubeconfig's user is an admin; a stranger gets nothing of that."""
    async with shared_console(tmp_path) as shared:
        await two_teams(shared)
        stranger = shared.browser()
        for path in ("/", A, "/events", "/plan", "/stream?page=%2F", f"{A}/log?download=1"):
            status, text = await stranger.get(path)
            assert status == 401
            assert "team-a" not in text
        nobody = await logged_in(shared, await account(shared.plane.client, "no", ()))
        assert "you may not list rayclusters.ray.io" in (await nobody.get("/"))[1]


async def test_the_token_is_in_no_address_page_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with shared_console(tmp_path) as shared:
        token = await account(shared.plane.client, "boss", WRITE)
        browser = await logged_in(shared, token)
        assert browser.answer is not None
        cookie = browser.answer.headers["Set-Cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        shown = [cookie, *map(str, browser.answer.headers.items())]
        for path in ("/", "/events", "/plan", "/nonsense"):
            shown.append((await browser.get(path))[1])
            assert browser.answer.headers["Referrer-Policy"] == "no-referrer"
        await browser.log_in(token + "x")
        await shared.browser().get(f"/login?token={token}")  # an address is no form
        assert (await browser.get("/"))[0] == 200
    shown += [caplog.text, *capsys.readouterr()]
    secret = token.rpartition(".")[2]
    assert not [one for one in shown if secret in one]


async def test_a_token_that_is_over_ends_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was listed with it is not shown either."""
    monkeypatch.setattr(visitors, "CHECK_SECONDS", -1.0)
    async with shared_console(tmp_path) as shared:
        await two_teams(shared)
        browser = await logged_in(shared, await account(shared.plane.client, "boss", WRITE))
        assert A in (await browser.get("/"))[1]
        await shared.plane.client.delete(SERVICE_ACCOUNTS, Key("default", "boss"))
        status, text = await browser.get("/")
        assert (status, browser.cookies) == (401, {})
        assert A not in text


async def test_a_login_survives_a_restart_with_the_same_key_only(tmp_path: Path) -> None:
    from manta.cli.server.console_logins import key_of
    from manta.console.sessions import Cookies, Session

    file = tmp_path / "key"
    file.write_text("k" * 40)
    sent = Cookies(key_of(file), port=80).make(Session(100.0, "token")).partition(";")[0]
    assert Cookies(key_of(file), port=80).session({"cookie": sent}, 1.0) == Session(100.0, "token")
    assert Cookies(key_of(None), port=80).session({"cookie": sent}, 1.0) is None
    assert Cookies(key_of(file), port=80).session({"cookie": sent}, 101.0) is None


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_cookie_that_was_changed_or_moved_is_no_login(*, encrypted: bool) -> None:
    """Neither one bit of it, nor under another name, of another key, or protected in the other way."""
    from manta.console.sessions import Cookies, Session

    def cookies(key: bytes = b"k" * 32, port: int = 1, *, same: bool = True) -> Cookies:
        return Cookies(key, port=port, encrypted=encrypted is same)

    session = Session(100.0)
    sealed = cookies().seal(session)
    assert cookies().opened(sealed, Session) == session
    raw = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    for at in range(len(raw)):
        changed = bytes([*raw[:at], raw[at] ^ 1, *raw[at + 1 :]])
        assert cookies().opened(base64.urlsafe_b64encode(changed).decode(), Session) is None
    for other in (cookies(port=2), cookies(b"l" * 32), cookies(same=False)):
        assert other.opened(sealed, Session) is None
    assert cookies().opened("", Session) is None
    assert cookies().opened("AAAA", Session) is None


def test_only_a_cookie_that_may_hold_a_token_is_encrypted(tmp_path: Path) -> None:
    from manta.console.login.link import LinkLogin
    from manta.console.login.links import OneTimeLinks
    from manta.console.login.oidc import OidcLogin
    from manta.console.login.proxy import ProxyLogin
    from manta.console.login.token import TokenLogin
    from manta.console.sessions import Cookies, Session

    assert all(one.has_tokens for one in (OidcLogin, ProxyLogin, TokenLogin))
    assert not LinkLogin(OneTimeLinks(tmp_path)).has_tokens
    sealed = Cookies(b"k" * 32, port=1).seal(Session(100.0, "the-token"))
    raw = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    with pytest.raises(zlib.error):
        zlib.decompress(raw[12:])


async def test_another_name_in_the_host_header_is_not_served(tmp_path: Path) -> None:
    async with shared_console(tmp_path) as shared:
        browser = shared.browser()
        browser.host = "evil.example"
        assert (await browser.get("/login"))[0] == 403


async def test_a_form_of_another_site_logs_nobody_in(tmp_path: Path) -> None:
    """Else a stranger could have people work in the stranger's account."""
    async with shared_console(tmp_path) as shared:
        token = await account(shared.plane.client, "boss", WRITE)
        browser = shared.browser()
        for site in ("cross-site", "same-site", "none"):
            status, _ = await browser.post("/login", {"token": token}, sec_fetch_site=site)
            assert (status, browser.cookies) == (403, {})


def test_a_cookie_under_tls_is_bound_to_its_host() -> None:
    from manta.console.sessions import Cookies, Session

    made = Cookies(b"k" * 32, secure=True).make(Session(1.0, "token"))
    assert made.startswith("__Host-manta-console=")
    assert "Path=/; HttpOnly; SameSite=Strict; Secure" in made
    assert "Domain" not in made


async def test_sixty_four_people_fill_the_console_and_one_who_left_makes_room() -> None:
    from manta.api.usage import UsageError
    from manta.console.sessions import Session
    from support.plane import memory_plane

    clock = _Clock()
    async with memory_plane() as plane:
        people = visitors.Visitors(lambda _session: plane.client_as(_nobody()), clock)
        try:
            for number in range(visitors.MAX_VISITORS):
                await people.of(Session(1e12, f"token-{number}"))
            with pytest.raises(UsageError, match="try again later"):
                await people.of(Session(1e12, "one more"))
            clock.later = visitors.SPARED_SECONDS + 1
            await people.of(Session(1e12, "one more"))
        finally:
            await people.close()


class _Clock(SystemClock):
    later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


def _nobody() -> Any:
    from manta.httpserver.messages import User

    return User("nobody", ("system:authenticated",))
