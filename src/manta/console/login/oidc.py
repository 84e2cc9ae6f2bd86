"""OIDC: people log in at an issuer that the API server trusts too; its id_token is their bearer token.

Authorization code flow with PKCE. What the console must know again when the browser comes back (state, nonce,
verifier) is in a cookie of its own, encrypted, for ten minutes. It is SameSite=Lax, as the issuer's page sends the
browser here; the login itself stays SameSite=Strict.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final

import msgspec

from manta.console.login.issuer import SKEW_SECONDS, Issuer, IssuerError, Tokens
from manta.console.login.method import Answer, Login
from manta.console.login.token import namespaces_of
from manta.console.pages.layout import Frame, document
from manta.console.pages.login import issuer_form, login_page, to_issuer
from manta.console.pages.page import Page
from manta.console.sessions import SECONDS, Cookies, Session, cookie_value
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.kube.errors import MantaError, Unauthorized

ATTEMPT_SECONDS: Final = 600
_MAX_RENEWALS: Final = 256
"""Renewed sessions that are remembered."""
_SHARED_SECONDS: Final = 60.0
"""For how long requests with the same refresh token get the same new session."""
_MAX_CODE_CHARACTERS: Final = 4096


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """A login that has begun."""

    expires: float
    state: str
    nonce: str
    verifier: str
    namespaces: tuple[str, ...] = ()


class OidcLogin(Login):
    def __init__(self, issuer: Issuer, cookies: Cookies, url: str) -> None:
        """`cookies`: for attempts, with a name of their own. `url`: the public address of the console."""
        self._issuer = issuer
        self._cookies = cookies
        self._redirect = f"{url.rstrip('/')}/login/callback"
        self._renewals: OrderedDict[str, tuple[float, asyncio.Task[Session]]] = OrderedDict()
        """By the hash of the refresh token, which many issuers accept once: tabs share the answer."""

    def page(self, why: str = "", status: int = 200) -> Page:
        return login_page(issuer_form(self._issuer.client.issuer), why, status)

    async def answer(self, request: HttpRequest, now: float) -> Answer:
        if request.method != "GET":
            return self.page(status=405)
        if request.path == "/login/issuer":
            return await self._begin(request, now)
        if request.path == "/login/callback":
            return await self._callback(request, now)
        return self.page()

    # ── to the issuer and back ───────────────────────────────────────────────────────────

    async def _begin(self, request: HttpRequest, now: float) -> Answer:
        namespaces, why = namespaces_of(request.param("namespaces"))
        if why:
            return self.page(why, 400)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Attempt(now + ATTEMPT_SECONDS, state, nonce, verifier, namespaces)
        to = await self._issuer.authorization_address(
            {
                "redirect_uri": self._redirect,
                "state": state,
                "nonce": nonce,
                "code_challenge": _challenge(verifier),
                "code_challenge_method": "S256",
            }
        )
        cookie = self._cookies.attempt(attempt, ATTEMPT_SECONDS)
        # Not a redirect: the policy of the page lets its form lead to this server only.
        headers = (("Set-Cookie", cookie), ("Refresh", f"0; url={to}"))
        text = document(to_issuer(to), Frame(logged_in=False), "/login")
        return HttpResponse(200, text.encode(), headers, "text/html; charset=utf-8")

    async def _callback(self, request: HttpRequest, now: float) -> Answer:
        attempt = self._cookies.opened(cookie_value(request.headers, self._cookies.name), Attempt)
        if attempt is None or attempt.expires <= now:
            return self.page("This login has taken too long, or began elsewhere. Try again.", 400)
        if not hmac.compare_digest(attempt.state.encode(), request.param("state").encode()):
            return self.page("This login did not begin in this browser. Try again.", 400)
        if request.param("iss", self._issuer.client.issuer) != self._issuer.client.issuer:
            return self.page("The answer is of another issuer.", 400)
        if error := request.param("error"):
            why = f"{error[:80]} {request.param('error_description')[:200]}"
            return self.page(f"The issuer did not log you in: {why}", 401)
        code = request.param("code")
        if not code or len(code) > _MAX_CODE_CHARACTERS:
            return self.page("The answer of the issuer has no code.", 400)
        tokens = await self._issuer.tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._redirect,
                "code_verifier": attempt.verifier,
            }
        )
        claims = self._issuer.claims(tokens.id_token, now)
        if not hmac.compare_digest(claims.nonce.encode(), attempt.nonce.encode()):
            raise IssuerError("the id_token is of another login")
        return Session(
            now + SECONDS, tokens.id_token, attempt.namespaces, tokens.refresh_token, claims.exp
        )

    # ── a new token ──────────────────────────────────────────────────────────────────────

    async def renewed(self, session: Session, now: float) -> Session:
        if now < session.token_expires - SKEW_SECONDS:
            return session
        if not session.refresh:
            return await super().renewed(session, now)
        name = hashlib.sha256(session.refresh.encode()).hexdigest()
        since, renewal = self._renewals.get(name, (0.0, None))
        if renewal is None or now - since > _SHARED_SECONDS:
            renewal = asyncio.create_task(self._renew(session, now))
            self._renewals[name] = (now, renewal)
            while len(self._renewals) > _MAX_RENEWALS:
                self._renewals.popitem(last=False)
        try:
            return await asyncio.shield(renewal)
        except Unauthorized:
            raise
        except MantaError:
            self._renewals.pop(name, None)  # the next request asks again
            if session.is_over(now):
                raise
            return session

    async def _renew(self, session: Session, now: float) -> Session:
        fields = {"grant_type": "refresh_token", "refresh_token": session.refresh}
        tokens: Tokens = await self._issuer.tokens(fields)
        if not tokens.id_token:
            why = "the issuer renews no id_token: log in again"
            raise Unauthorized(401, "Unauthorized", why)
        before = self._issuer.claims(session.token, 0.0)
        claims = self._issuer.claims(tokens.id_token, now)
        if claims.sub != before.sub:
            raise Unauthorized(401, "Unauthorized", "the issuer answered for another user")
        return msgspec.structs.replace(
            session,
            token=tokens.id_token,
            refresh=tokens.refresh_token or session.refresh,
            token_expires=claims.exp,
        )

    async def close(self) -> None:
        tasks = [one for _, one in self._renewals.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
