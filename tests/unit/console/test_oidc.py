"""Login at an OIDC issuer: code flow, PKCE, state, nonce, claims, renewal."""

from __future__ import annotations

import asyncio
import base64
import json
from argparse import Namespace
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

import pytest

from manta.cli.server import console_shared
from manta.console.api.callers import Callers
from manta.console.api.handler import RayApi
from manta.console.fetch import HttpFetch
from manta.console.login.issuer import Client, Issuer
from manta.console.login.oidc import OidcLogin
from manta.console.login.token import TokenLogin
from manta.console.router import Router
from manta.console.server import ConsoleHandler, Settings
from manta.console.sessions import Cookies, Session
from manta.console.visitors import Visitors
from manta.httpserver.messages import ANONYMOUS, HttpRequest, HttpResponse, User
from manta.kube.client import Client as KubeClient
from manta.kube.cluster import Pem
from manta.runtime.clock import SystemClock
from support.console import COMMANDS, KEY
from support.issuer import CLIENT, SECRET, FakeIssuer, running_issuer
from support.plane import memory_plane
from support.shared_console import shared_console

URL = "https://ray.example"


@dataclass
class Browser:
    handler: ConsoleHandler
    issuer: FakeIssuer
    tokens: list[str]
    """That Kubernetes has seen."""
    clock: _Clock
    cookies: dict[str, str]
    answer: HttpResponse | None = None

    async def get(self, address: str) -> int:
        parts = urlsplit(address)
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"host": "ray.example", "cookie": cookie}
        query = tuple(parse_qsl(parts.query))
        self.answer = await self.handler.handle(HttpRequest("GET", parts.path, query, headers))
        for name, value in self.answer.headers:
            if name == "Set-Cookie":
                key, _, rest = value.partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return self.answer.status

    def header(self, name: str) -> str:
        assert self.answer is not None
        return dict(self.answer.headers)[name]

    def text(self) -> str:
        assert self.answer is not None
        return cast("bytes", self.answer.body).decode()

    async def to_issuer(self) -> str:
        assert await self.get("/login/issuer") == 200
        return self.header("Refresh").removeprefix("0; url=")

    async def log_in(self) -> int:
        return await self.get(self.issuer.log_in(await self.to_issuer()))


class _Clock(SystemClock):
    later = 0.0

    def now(self) -> Any:
        from datetime import timedelta

        return super().now() + timedelta(seconds=self.later)


@asynccontextmanager
async def running(url: str = URL) -> AsyncIterator[Browser]:
    tokens: list[str] = []
    async with running_issuer() as issuer, memory_plane() as plane:

        def connect(session: Session) -> KubeClient:
            tokens.append(session.token)
            claims = session.token.split(".")[1]
            plain = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            return plane.client_as(User(plain["sub"], ("system:authenticated",)))

        fetch, clock = HttpFetch({}), _Clock()
        visitors = Visitors(connect, clock)
        client = Client(issuer.url, CLIENT, SECRET)
        login = OidcLogin(Issuer(client, fetch), Cookies(KEY, secure=True, about="login"), url)
        settings = Settings(Cookies(KEY, secure=True), login)
        api = RayApi(Callers(plane.client_as(ANONYMOUS).transport, visitors, clock))
        handler = ConsoleHandler(settings, visitors, Router(COMMANDS), api, clock)
        try:
            yield Browser(handler, issuer, tokens, clock, {})
        finally:
            await visitors.close()
            await login.close()
            await fetch.close()


async def test_the_id_token_is_what_kubernetes_gets() -> None:
    async with running() as browser:
        assert await browser.get("/") == 401
        assert await browser.log_in() == 200
        assert await browser.get("/") == 200
        assert "ada" in browser.text()
        [token] = set(browser.tokens)
        assert token.count(".") == 2


async def test_the_login_is_strict_and_its_attempt_comes_back_from_the_issuer() -> None:
    async with running() as browser:
        to = await browser.to_issuer()
        attempt = browser.header("Set-Cookie")
        assert attempt.startswith("__Host-manta-login=")
        assert "SameSite=Lax; Secure; Max-Age=600" in attempt
        assert await browser.get(browser.issuer.log_in(to)) == 200
        kept = browser.header("Set-Cookie")
        assert kept.startswith("__Host-manta-console=")
        assert "HttpOnly; SameSite=Strict; Secure" in kept


@pytest.mark.parametrize(
    ("scopes", "prompt"), [("openid", None), ("openid offline_access", "consent")]
)
async def test_consent_is_asked_for_with_a_refresh_token(scopes: str, prompt: str | None) -> None:
    """A certified issuer ignores offline_access without it."""
    async with running_issuer() as issuer:
        fetch = HttpFetch({})
        asked = await Issuer(
            Client(issuer.url, CLIENT, SECRET, scopes), fetch
        ).authorization_address({})
        await fetch.close()
        assert dict(parse_qsl(urlsplit(asked).query)).get("prompt") == prompt


async def test_an_answer_that_this_browser_did_not_ask_for_logs_nobody_in() -> None:
    """Else a stranger could log people in to the stranger's account."""
    async with running() as browser:
        other = Browser(browser.handler, browser.issuer, [], browser.clock, {})
        answer = browser.issuer.log_in(await other.to_issuer())
        assert await browser.get(answer) == 400  # no attempt
        await browser.to_issuer()
        assert await browser.get(answer) == 400  # another state
        assert "__Host-manta-console" not in browser.cookies


async def test_a_code_works_once_and_an_attempt_ten_minutes() -> None:
    async with running() as browser:
        answer = browser.issuer.log_in(await browser.to_issuer())
        assert await browser.get(answer) == 200
        assert await browser.get(answer) == 401
        answer = browser.issuer.log_in(await browser.to_issuer())
        browser.clock.later = 601
        assert await browser.get(answer) == 400


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"aud": "somebody"}, "another client"),
        ({"aud": [CLIENT, "somebody"], "azp": "somebody"}, "another client"),
        ({"nonce": "replayed"}, "another login"),
        ({"exp": 1.0}, "over already"),
        ({"sub": 7}, "no id_token"),
    ],
)
async def test_a_token_with_wrong_claims_logs_nobody_in(claims: dict[str, Any], words: str) -> None:
    async with running() as browser:
        browser.issuer.claims = claims
        assert await browser.log_in() == 502
        assert words in browser.text()
        assert "__Host-manta-console" not in browser.cookies
        assert not browser.tokens


async def test_what_the_issuer_refuses_is_shown_as_text() -> None:
    async with running() as browser:
        state = dict(parse_qsl(urlsplit(await browser.to_issuer()).query))["state"]
        path = f"/login/callback?state={state}&error=access_denied&error_description=%3Cscript%3E"
        assert await browser.get(path) == 401
        assert "access_denied &lt;script&gt;" in browser.text()


async def test_an_issuer_with_another_name_is_not_used() -> None:
    async with running() as browser:
        browser.issuer.url = browser.issuer.url.replace("127.0.0.1", "localhost")
        assert await browser.get("/login/issuer") == 502
        assert "calls itself" in browser.text()


async def test_a_token_near_its_end_is_renewed_once_for_all_tabs() -> None:
    async with running() as browser:
        await browser.log_in()
        await browser.get("/")
        before = browser.cookies["__Host-manta-console"]
        browser.clock.later = 3590.0
        tabs = [
            Browser(browser.handler, browser.issuer, [], browser.clock, dict(browser.cookies))
            for _ in range(4)
        ]
        assert await asyncio.gather(*(one.get("/") for one in tabs)) == [200] * 4
        assert browser.issuer.asked == ["authorization_code", "refresh_token"]
        assert all(one.cookies["__Host-manta-console"] != before for one in tabs)
        assert len(set(browser.tokens)) == 2


async def test_without_a_refresh_token_the_login_ends_with_its_token() -> None:
    async with running() as browser:
        browser.issuer.renews = False
        await browser.log_in()
        assert await browser.get("/") == 200
        browser.clock.later = 3601.0
        assert await browser.get("/") == 401
        assert not browser.cookies["__Host-manta-console"]


async def test_an_issuer_that_renews_for_another_user_ends_the_login() -> None:
    async with running() as browser:
        await browser.log_in()
        browser.issuer.claims = {"sub": "eve"}
        browser.clock.later = 3590.0
        assert await browser.get("/") == 401


async def test_a_refresh_token_that_does_not_fit_into_the_cookie_is_left_out() -> None:
    import secrets

    async with running() as browser:
        browser.issuer.claims = {"groups": [secrets.token_hex(16) for _ in range(60)]}
        assert await browser.log_in() == 200
        assert len(browser.header("Set-Cookie")) <= 4096
        browser.issuer.claims = {"groups": [secrets.token_hex(16) for _ in range(200)]}
        assert await browser.log_in() == 502
        assert "bytes of 4096" in browser.text()


async def test_the_authority_of_the_issuer_is_not_that_of_the_history_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It replaces those of the machine: the history server often has another one."""
    authorities: dict[str, object] = {}

    class Noted(HttpFetch):
        def __init__(self, environment: Mapping[str, str], ca: Pem | None = None) -> None:
            super().__init__(environment, ca)
            self.authority = ca

    def login_of(args: Namespace, key: bytes, url: SplitResult, fetch: Noted) -> TokenLogin:
        authorities["issuer"] = fetch.authority
        return TokenLogin()

    def history_of(text: str, fetch: Noted) -> None:
        authorities["history"] = fetch.authority

    monkeypatch.setattr(console_shared, "HttpFetch", Noted)
    monkeypatch.setattr(console_shared, "login_of", login_of)
    monkeypatch.setattr(console_shared, "history_of", history_of)
    async with shared_console(tmp_path, "--oidc-ca", str(tmp_path / "ca.crt"), login="oidc"):
        assert authorities == {"issuer": tmp_path / "ca.crt", "history": None}
