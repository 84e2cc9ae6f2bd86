"""A console for many people on the embedded plane: Kubernetes decides what each of them sees and does."""

from __future__ import annotations

import asyncio
import base64
import logging
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CLUSTER_ROLE_BINDINGS, SERVICE_ACCOUNTS
from manta.api.usage import UsageError
from manta.console import visitors
from manta.console.sessions import Session
from manta.httpserver.messages import User
from manta.kube.client import Client
from manta.kube.errors import NotFound, Unauthorized
from manta.kube.transport import Request, Response
from manta.localplane.apiserver.app import App
from manta.localplane.inprocess import InProcessTransport
from manta.runtime.clock import Clock, SystemClock
from support.plane import memory_plane
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
            assert browser.answer.headers["Referrer-Policy"] == "same-origin"
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


async def test_rights_that_are_taken_away_or_given_show_at_the_next_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when the watches begin: those of a user who lost all rights go on."""
    monkeypatch.setattr(visitors, "CHECK_SECONDS", -1.0)
    async with shared_console(tmp_path) as shared:
        await two_teams(shared)
        browser = await logged_in(shared, await account(shared.plane.client, "boss", WRITE))
        assert A in (await browser.get("/"))[1]
        binding = await shared.plane.client.get(CLUSTER_ROLE_BINDINGS, Key("", "boss"))
        await shared.plane.client.delete(CLUSTER_ROLE_BINDINGS, Key("", "boss"))
        status, text = await browser.get("/")
        assert status == 200
        assert A not in text
        assert "you may not list rayclusters.ray.io" in text
        assert (await browser.get(A))[0] == 404
        again = {**binding, "metadata": {"name": "boss"}}
        await shared.plane.client.create(CLUSTER_ROLE_BINDINGS, "", again)
        async with asyncio.timeout(30):
            while A not in (await browser.get("/"))[1]:
                await asyncio.sleep(0.05)


async def test_a_login_asks_again_what_one_may_see(tmp_path: Path) -> None:
    async with shared_console(tmp_path) as shared:
        await two_teams(shared)
        token = await account(shared.plane.client, "boss", WRITE)
        assert A in (await (await logged_in(shared, token)).get("/"))[1]
        await shared.plane.client.delete(CLUSTER_ROLE_BINDINGS, Key("", "boss"))
        assert A not in (await (await logged_in(shared, token)).get("/"))[1]


async def test_a_login_survives_a_restart_with_the_same_key_only(tmp_path: Path) -> None:
    from manta.cli.server.console_logins import key_of
    from manta.console.sessions import Cookies

    file = tmp_path / "key"
    file.write_text("k" * 40)
    sent = Cookies(key_of(file), port=80).make(Session(100.0, "token")).partition(";")[0]
    assert Cookies(key_of(file), port=80).session({"cookie": sent}, 1.0) == Session(100.0, "token")
    assert Cookies(key_of(None), port=80).session({"cookie": sent}, 1.0) is None
    assert Cookies(key_of(file), port=80).session({"cookie": sent}, 101.0) is None


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_cookie_that_was_changed_or_moved_is_no_login(*, encrypted: bool) -> None:
    """Neither one bit of it, nor under another name, of another key, or protected in the other way."""
    from manta.console.sessions import Cookies

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
    from manta.console.sessions import Cookies

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
    from manta.console.sessions import Cookies

    made = Cookies(b"k" * 32, secure=True).make(Session(1.0, "token"))
    assert made.startswith("__Host-manta-console=")
    assert "Path=/; HttpOnly; SameSite=Strict; Secure" in made
    assert "Domain" not in made


@asynccontextmanager
async def people(clock: Clock | None = None) -> AsyncIterator[visitors.Visitors]:
    """Everybody whose token is a name that Kubernetes knows."""
    async with memory_plane() as plane:

        def connect(session: Session) -> Client:
            name = session.token.partition(" ")[0]  # a user may have several tokens
            return plane.client_as(User(name or "owner", ("system:authenticated",)))

        found = visitors.Visitors(connect, clock or _Clock())
        try:
            yield found
        finally:
            await found.close()


async def test_sixty_four_people_fill_the_console_and_one_who_left_makes_room() -> None:
    clock = _Clock()
    async with people(clock) as console:
        for number in range(visitors.MAX_VISITORS):
            await console.of(Session(1e12, f"user-{number}"))
        with pytest.raises(UsageError, match="try again later"):
            await console.of(Session(1e12, "one-more"))
        clock.later = visitors.SPARED_SECONDS + 1
        await console.of(Session(1e12, "one-more"))


async def test_who_leaves_without_a_logout_asks_kubernetes_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The token ends, and watches would be tried again with it for ever."""
    monkeypatch.setattr(visitors, "SWEEP_SECONDS", 0.01)
    clock = _Clock()
    async with people(clock) as console:
        away, looking, owner = [await console.of(Session(1e12, one)) for one in ("ada", "bob", "")]
        looking.streams = 1
        clock.later = visitors.IDLE_SECONDS + 1
        async with asyncio.timeout(30):
            while not away._closed:
                await asyncio.sleep(0.01)
        assert set(console._arrived().values()) == {looking, owner}
        looking.streams = 0


async def test_who_comes_back_while_others_are_closed_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitors, "SWEEP_SECONDS", 0.01)
    clock, back = _Clock(), asyncio.Event()
    async with people(clock) as console:
        ada, bob = [await console.of(Session(1e12, one)) for one in ("ada", "bob")]
        close = ada.close

        async def slowly() -> None:
            await console.log_out(Session(1e12, "bob"))
            again.append(await console.of(Session(1e12, "bob")))
            await close()
            back.set()

        again: list[visitors.Visitor] = []
        monkeypatch.setattr(ada, "close", slowly)
        clock.later = visitors.IDLE_SECONDS + 1
        async with asyncio.timeout(30):
            await back.wait()
        await asyncio.sleep(0.1)
        assert bob._closed
        assert list(console._arrived().values()) == again


@pytest.mark.parametrize("by", ["namespaces", "tokens"])
async def test_one_user_leaves_room_for_others_however_often_they_log_in(by: str) -> None:
    clock = _Clock()
    async with people(clock) as console:
        found = []
        for number in range(visitors.MAX_VISITORS + 1):
            clock.later += 1
            session = Session(1e12, "ada", (f"team-{number}",))
            if by == "tokens":
                session = Session(1e12, f"ada {number}")
            found.append(await console.of(session))
        await console.of(Session(1e12, "bob"))
        with pytest.raises(visitors.ClosedError):  # the oldest has left
            await found[0].check()
        for one in found[-visitors.MAX_OF_A_USER :]:
            await one.check()
            one.streams = 1
        with pytest.raises(UsageError, match="log out somewhere"):
            await console.of(Session(1e12, "ada", ("one-more",)))


async def test_a_token_that_kubernetes_does_not_know_takes_nobodys_place() -> None:
    async def answer(session: Session) -> None:
        with pytest.raises(Unauthorized):
            await console.of(session)

    def connect(session: Session) -> Client:
        ada = User("ada", ("system:authenticated",))
        return plane.client_as(ada) if session.token == "ada" else strangers

    async with memory_plane() as plane:
        transport = _Refusing(plane.app)
        strangers = Client(transport)
        console = visitors.Visitors(connect, _Clock())
        try:
            many = [Session(1e12, f"stranger-{one}") for one in range(visitors.MAX_VISITORS)]
            answers = [asyncio.create_task(answer(one)) for one in many]
            await transport.asked.wait()
            await console.of(Session(1e12, "ada"))
            transport.answers.set()
            await asyncio.gather(*answers)
        finally:
            await console.close()


async def test_a_stranger_who_does_not_wait_for_the_answer_leaves_nothing() -> None:
    async with memory_plane() as plane:
        transport = _Refusing(plane.app)
        console = visitors.Visitors(lambda _: Client(transport), _Clock())
        try:
            visit = asyncio.create_task(console.of(Session(1e12, "stranger")))
            await transport.asked.wait()
            visit.cancel()
            await asyncio.gather(visit, return_exceptions=True)
            transport.answers.set()
            async with asyncio.timeout(30):
                while console._known:
                    await asyncio.sleep(0.01)
        finally:
            await console.close()


class _Refusing(InProcessTransport):
    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def send(self, request: Request) -> Response:
        self.asked.set()
        await self.answers.wait()
        return Response(401, {}, b"")


class _Clock(SystemClock):
    later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later
