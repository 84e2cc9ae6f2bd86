"""Answers the requests of browsers: static files, login, pages, streams, logs and actions."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlencode

from manta.api.usage import UsageError
from manta.console.assets import Assets
from manta.console.links import OneTimeLinks
from manta.console.pages import messages
from manta.console.pages.layout import Frame, document
from manta.console.pages.page import Page
from manta.console.router import Router
from manta.console.sessions import SECONDS, Cookies, Session, is_same_origin
from manta.console.stream import digest, page_stream
from manta.console.visitors import Visitor, Visitors
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import ANONYMOUS, HttpRequest, HttpResponse, User, text_response
from manta.kube.errors import ApiError, MantaError, Unauthorized
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

LIMITS: Final = Limits(body_bytes=1024 * 1024)
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_READS: Final = frozenset(("GET", "HEAD"))
_HTML: Final = "text/html; charset=utf-8"
_MOST_LOGIN_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Settings:
    cookies: Cookies
    links: OneTimeLinks | None
    """Those that log this machine's user in; None: people paste tokens of Kubernetes."""
    server: str = ""
    """The address of the API server, shown to people."""


class ConsoleHandler(Handler):
    default_headers = (
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", _POLICY),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    )

    def __init__(
        self, settings: Settings, visitors: Visitors, router: Router, clock: Clock
    ) -> None:
        self._settings = settings
        self._visitors = visitors
        self._router = router
        self._clock = clock
        self._assets = Assets()

    async def authenticate(self, request: HttpRequest, certificate: object) -> User:
        """A person who has logged in may keep a connection longer than a stranger."""
        return User("console") if self._session(request) is not None else ANONYMOUS

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.path in ("/healthz", "/readyz", "/livez"):
            return text_response(200, "ok")
        if request.path.startswith("/static/") and request.method in _READS:
            return self._assets.response(request.path.removeprefix("/static/"))
        if request.method not in _READS and not is_same_origin(request.headers):
            return self._page(messages.refused("The request does not come from this console."))
        if request.path == "/login":
            return await self._login(request)
        if request.path == "/logout" and request.method == "POST":
            return self._redirect("/login", self._settings.cookies.forget())
        session = self._session(request)
        if session is None:
            return self._stranger(request)
        try:
            return await self._of_visitor(request, await self._visitors.of(session))
        except Unauthorized as error:
            if self._settings.links is not None:  # the link was used: a new login needs a new one
                return self._page(messages.failed(str(error)))
            return self._redirect("/login", self._settings.cookies.forget())
        except (MantaError, UsageError) as error:
            log.warning("%s: %s", request.path, error)
            return self._page(messages.failed(str(error), _status_of(error)))

    # ── login ────────────────────────────────────────────────────────────────────────────

    def _session(self, request: HttpRequest) -> Session | None:
        return self._settings.cookies.session(request.headers, self._clock.now().timestamp())

    def _stranger(self, request: HttpRequest) -> HttpResponse:
        if self._settings.links is None and request.method in _READS:
            return self._redirect("/login")
        return self._page(messages.login(pasted=self._settings.links is None, status=401))

    async def _login(self, request: HttpRequest) -> HttpResponse:
        if self._settings.links is not None:
            return self._login_by_link(request, self._settings.links)
        if request.method != "POST":
            return self._page(messages.login(pasted=True))
        fields = parse_qs(request.body[:_MOST_LOGIN_BYTES].decode("latin-1"))
        token = fields.get("token", [""])[0].strip()
        spaces = tuple(fields.get("namespaces", [""])[0].replace(",", " ").split())
        session = self._new_session(token, spaces)
        try:
            if not token:
                return self._page(
                    messages.login(pasted=True, why="The token is missing.", status=400)
                )
            await self._visitors.of(session)
        except Unauthorized:
            why = "Kubernetes does not accept this token."
            return self._page(messages.login(pasted=True, why=why, status=401))
        except (MantaError, UsageError) as error:
            return self._page(messages.login(pasted=True, why=str(error), status=502))
        return self._logged_in(session)

    def _login_by_link(self, request: HttpRequest, links: OneTimeLinks) -> HttpResponse:
        now = self._clock.now().timestamp()
        if request.method != "GET" or not links.redeem(request.param("token"), now):
            why = "This link was used already, is older than an hour, or is of another console."
            return self._page(messages.login(pasted=False, why=why, status=401))
        return self._logged_in(self._new_session())

    def _new_session(self, token: str = "", namespaces: tuple[str, ...] = ()) -> Session:
        return Session(self._clock.now().timestamp() + SECONDS, token, namespaces)

    def _logged_in(self, session: Session) -> HttpResponse:
        """A page that leads on, not a redirect: after a link of another site the browser would not send
        the new cookie with the redirected request."""
        headers = (("Set-Cookie", self._settings.cookies.make(session)), ("Refresh", "0; url=/"))
        text = document(messages.logged_in(), self._frame(logged_in=False), "/login")
        return HttpResponse(200, text.encode(), headers, _HTML)

    # ── pages ────────────────────────────────────────────────────────────────────────────

    async def _of_visitor(self, request: HttpRequest, visitor: Visitor) -> HttpResponse:
        if request.path == "/stream":
            return self._stream(request, visitor)
        if request.method == "POST":
            answer = await self._router.post(visitor, request)
            return self._page(answer, visitor, request) if isinstance(answer, Page) else answer
        if request.method not in _READS:
            return self._page(messages.refused("This method is not used here.", 405))
        if (download := await self._router.download(visitor, request)) is not None:
            return download
        page = await self._router.page(visitor, request.path, request.query)
        return self._page(page, visitor, request)

    def _stream(self, request: HttpRequest, visitor: Visitor) -> HttpResponse:
        path, _, query = request.param("page").partition("?")
        pairs = tuple((name, one) for name, found in parse_qs(query).items() for one in found)

        async def render() -> Page:
            return await self._router.page(visitor, path, pairs)

        body = page_stream(visitor, render, request.param("seen"))
        return HttpResponse(200, body, content_type="text/event-stream")

    def _page(
        self, page: Page, visitor: Visitor | None = None, request: HttpRequest | None = None
    ) -> HttpResponse:
        frame = self._frame(logged_in=False)
        path, query = "/", ""
        if visitor is not None and request is not None:
            frame = self._frame(
                user=visitor.watching.snapshot().user, notice=messages.notice(request.param("done"))
            )
            path = request.path
            query = urlencode([pair for pair in request.query if pair[0] != "done"])
        seen = digest(page.regions())
        text = document(page, frame, path, query, seen)
        return HttpResponse(page.status, text.encode(), content_type=_HTML)

    def _frame(self, *, user: str = "", notice: str = "", logged_in: bool = True) -> Frame:
        return Frame(
            user=user,
            server=self._settings.server,
            style=self._assets.address("console.css"),
            script=self._assets.address("console.js"),
            logged_in=logged_in,
            notice=notice,
        )

    def _redirect(self, to: str, cookie: str = "") -> HttpResponse:
        headers = (("Location", to), *((("Set-Cookie", cookie),) if cookie else ()))
        return HttpResponse(303, b"", headers, _HTML)


def _status_of(error: MantaError | UsageError) -> int:
    """The visitor's own mistake keeps its status; 502 says that the API server could not answer."""
    if isinstance(error, UsageError):
        return 400
    return error.status if isinstance(error, ApiError) and error.status < 500 else 502
