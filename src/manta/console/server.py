"""Answers the requests of browsers: static files, login, pages, streams, logs and actions."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import parse_qs, quote, urlencode

import msgspec

from manta.api.addresses import parse_address
from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.client.job_logs import NoLogError
from manta.client.websockets import asks_for_websocket
from manta.console.api.handler import DOCUMENTS, METRICS, RayApi
from manta.console.api.routes import is_api_path
from manta.console.api.statuses import refusal
from manta.console.assets import Assets
from manta.console.dashboards.origins import DashboardLinks
from manta.console.live_queries import head_service
from manta.console.log_routes import with_job_log
from manta.console.login.method import Login
from manta.console.pages import messages
from manta.console.pages.api import api_page
from manta.console.pages.layout import Frame, document
from manta.console.pages.login import led_on, logged_in, logged_out
from manta.console.pages.page import Page
from manta.console.pages.parts import PLURALS
from manta.console.router import Router
from manta.console.sessions import Cookies, Session, TooLongError, is_same_origin
from manta.console.stream import digest, page_stream, shape, while_pending
from manta.console.visitors import CHECK_SECONDS, ClosedError, Visitor, Visitors
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import (
    ANONYMOUS,
    HttpError,
    HttpRequest,
    HttpResponse,
    User,
    text_response,
)
from manta.httpserver.request import host_name
from manta.httpserver.upgrade import UpgradedConnection
from manta.kube.errors import ApiError, MantaError, Unauthorized
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

LIMITS: Final = Limits(body_bytes=8 * 1024 * 1024)
"""The body is that of the API: code that a client of Ray uploads."""
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
AGAIN: Final = ("Refresh", "10")
"""Header of a page that the API server could not answer: the browser tries again after 10 s."""
LOGIN_BYTES: Final = 12
NO_REFERRER: Final = ("Referrer-Policy", "no-referrer")
"""Header of the page whose address has a token or code of a login."""
_READS: Final = frozenset(("GET", "HEAD"))
_HEALTH: Final = ("/healthz", "/readyz", "/livez")
_PROBED: Final = (*_HEALTH, METRICS)
_HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Settings:
    cookies: Cookies
    login: Login
    server: str = ""
    """The address of the API server, shown to people."""
    dashboard_links: DashboardLinks | None = None
    """To dashboards, if they are served."""


class ConsoleHandler(Handler):
    default_headers = (
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "same-origin"),  # no-referrer: forms would send `Origin: null`
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", _POLICY),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    )

    def __init__(
        self, settings: Settings, visitors: Visitors, router: Router, api: RayApi, clock: Clock
    ) -> None:
        self._settings = settings
        self._api = api
        self._visitors = visitors
        self._router = router
        self._clock = clock
        self._assets = Assets()

    def takes_any_host(self, request: HttpRequest) -> bool:
        """Clients in the cluster know the console by the name of its Service: no browser adds a bearer token by itself.
        Prometheus and kubelets know Pods by their address, which is no name that a web page could have."""
        if is_api_path(request.path):
            scheme = request.headers.get("authorization", "").partition(" ")[0].lower()
            return scheme == "bearer" and "cookie" not in request.headers
        host = host_name(request.headers.get("host", ""))
        probed = request.method in _READS and request.path in _PROBED
        return probed and parse_address(host) is not None

    async def authenticate(self, request: HttpRequest, certificate: object) -> User:
        """A user who has logged in, or has a token that works, may keep connections longer than others do."""
        if (session := self._session(request)) is not None:
            return User(f"console {session.identity()}")  # people do not share a budget
        return self._api.known(request) or ANONYMOUS

    async def upgrade(
        self, request: HttpRequest, connection: UpgradedConnection
    ) -> HttpResponse | None:
        """Only Services of Ray speak WebSocket."""
        if is_api_path(request.path) and asks_for_websocket(request.headers):
            return await self._api.upgrade(request, self._session(request), connection)
        return await self.handle(request)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if (public := self._public(request)) is not None:
            return public
        if is_api_path(request.path):
            return await self._api.handle(request, self._session(request))
        if request.method not in _READS and not is_same_origin(request.headers):
            return self._page(messages.refused("The request does not come from this console."))
        if request.path == "/login" or request.path.startswith("/login/"):
            return await self._log_in(request)
        if request.path == "/logout" and request.method == "POST":
            return await self._log_out(request)
        session = self._session(request)
        if request.path == "/session":  # a tab whose stream has ended asks why
            return text_response(200, "out" if session is None else "in")
        if session is None:
            return self._anonymous(request)
        try:
            return await self._of_session(request, session)
        except Unauthorized as error:
            return self._logged_out(str(error))
        except (MantaError, UsageError) as error:
            log.warning("%r: %s", request.path, error)
            page = messages.failed(str(error), _status_of(error), request.path)
            answer = self._page(page, session=session)
            again = page.status == 502 and request.method == "GET"
            return replace(answer, headers=(*answer.headers, AGAIN)) if again else answer

    def error_response(self, error: HttpError) -> HttpResponse:
        """A Status: people can read it, and clients of the API must."""
        return refusal(error.status, error.message)

    def _public(self, request: HttpRequest) -> HttpResponse | None:
        """What everybody may read."""
        if request.path in _HEALTH:
            return text_response(200, "ok")
        if request.path.startswith("/static/") and request.method in _READS:
            return self._assets.response(request.path.removeprefix("/static/"))
        if request.path == "/swagger-ui/" and request.method in _READS:
            return self._page(api_page(DOCUMENTS[0]))
        return self._api.public(request)

    # ── login ────────────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _session(self, request: HttpRequest) -> Session | None:
        login, now = self._settings.login, self._now()
        kept = self._settings.cookies.session(request.headers, now) if login.by_cookie else None
        found = login.session(request, kept, now)
        return None if found is not None and self._visitors.has_left(found) else found

    async def _check(self, visitor: Visitor, session: Session) -> None:
        """Raises Unauthorized or ClosedError if what is open for this session must end, and the client's errors."""
        if session.is_over(self._now()) or self._visitors.has_left(session):
            raise Unauthorized(401, "Unauthorized", "the login is over")
        await visitor.check()

    async def _until_over(self, visitor: Visitor, session: Session) -> None:
        """Return when what is open for this session must end. Until then its visitor is here: a log may load for long."""
        while True:
            visitor.visit()
            try:
                await self._check(visitor, session)
            except (Unauthorized, ClosedError):
                return
            except MantaError as error:
                log.warning("a login could not be checked: %s", error)
            await visitor.watch.wait_newer(visitor.watch.version, CHECK_SECONDS)

    def _anonymous(self, request: HttpRequest) -> HttpResponse:
        """To the login. But after a link of another site the browser has not sent the cookie: it is led to the
        same page once more, from a page of this server."""
        navigates = request.headers.get("sec-fetch-mode") == "navigate"
        if not navigates or request.method != "GET" or not self._settings.login.by_cookie:
            return self._page(self._settings.login.page(status=401))
        if request.headers.get("sec-fetch-site") != "cross-site" or not _is_page(request.path):
            return self._redirect("/login")
        query = f"?{urlencode(request.query)}" if request.query else ""
        to = f"{quote(request.path)}{query}"
        text = document(led_on(to), self._frame(logged_in=False), "/login")
        return HttpResponse(200, text.encode(), (("Refresh", f"0; url={to}"),), _HTML)

    async def _of_session(self, request: HttpRequest, session: Session) -> HttpResponse:
        renewed = await self._settings.login.renewed(session, self._now())
        answer = await self._of_visitor(request, await self._visitors.of(renewed), renewed)
        if renewed is session:
            return answer
        return replace(answer, headers=(*answer.headers, self._cookie(renewed)))

    def _logged_out(self, why: str) -> HttpResponse:
        login = self._settings.login
        if not login.is_checked:
            return self._page(messages.failed(why))
        answer = self._page(login.page(f"Kubernetes does not accept this login: {why}", 401))
        forget = ("Set-Cookie", self._settings.cookies.forget())
        return replace(answer, headers=(*answer.headers, forget))

    async def _log_in(self, request: HttpRequest) -> HttpResponse:
        login = self._settings.login
        try:
            answer = await login.answer(request, self._now())
            if isinstance(answer, Session):
                login_id = secrets.token_urlsafe(LOGIN_BYTES)
                return await self._welcome(msgspec.structs.replace(answer, login=login_id))
        except Unauthorized:
            answer = login.page("Kubernetes does not accept this token.", 401)
        except (MantaError, UsageError, TooLongError) as error:
            log.warning("%r: %s", request.path, error)
            answer = login.page(str(error), 502)
        return self._page(answer) if isinstance(answer, Page) else answer

    async def _log_out(self, request: HttpRequest) -> HttpResponse:
        if (session := self._session(request)) is not None:
            await self._visitors.log_out(session)
        login = self._settings.login
        if login.by_cookie:
            return self._redirect(login.logout, self._settings.cookies.forget())
        if not login.logout:
            return self._page(messages.refused("Log out at the proxy that logged you in.", 405))
        # Not a redirect: the policy of the page lets its form lead to this server only.
        text = document(logged_out(login.logout), self._frame(logged_in=False), "/login")
        return HttpResponse(200, text.encode(), (("Refresh", f"0; url={login.logout}"),), _HTML)

    async def _welcome(self, session: Session) -> HttpResponse:
        """A page that leads on, not a redirect: after a link of another site the browser would not send
        the new cookie with the redirected request."""
        if self._settings.login.is_checked:
            await self._visitors.of(session, login=True)
        headers = (self._cookie(session), ("Refresh", "0; url=/"), NO_REFERRER)
        text = document(logged_in(), self._frame(logged_in=False), "/login")
        return HttpResponse(200, text.encode(), headers, _HTML)

    def _cookie(self, session: Session) -> tuple[str, str]:
        """A refresh token that does not fit is left out: the login then ends with its token."""
        try:
            return "Set-Cookie", self._settings.cookies.make(session)
        except TooLongError:
            if not session.refresh:
                raise
        return "Set-Cookie", self._settings.cookies.make(
            msgspec.structs.replace(session, refresh="")
        )

    # ── pages ────────────────────────────────────────────────────────────────────────────

    async def _of_visitor(
        self, request: HttpRequest, visitor: Visitor, session: Session
    ) -> HttpResponse:
        if request.path == "/stream":
            return self._stream(request, visitor, session)
        if (to := self._dashboard(request, visitor, session)) is not None:
            return self._redirect(to)
        if request.path == "/history/open" and self._router.history is not None:
            link = self._router.history.link(visitor.token, request.param("session"))
            return self._redirect(await link)
        if request.method == "POST":
            answer = await self._router.post(visitor, request)
            return self._page(answer, visitor, request) if isinstance(answer, Page) else answer
        if request.method not in _READS:
            return self._page(messages.refused("This method is not used here.", 405))
        if (download := await self._router.download(visitor, request)) is not None:
            if isinstance(download.body, bytes):
                return download
            over = partial(self._until_over, visitor, session)
            return replace(download, body=while_pending(over, download.body))
        page = await self._router.page(visitor, request.path, request.query)
        return self._page(page, visitor, request)

    def _dashboard(self, request: HttpRequest, visitor: Visitor, session: Session) -> str | None:
        """Where the dashboard of a cluster is; None if the request is not for one, or there is none."""
        parts = request.path.strip("/").split("/")
        if self._settings.dashboard_links is None or len(parts) != 4 or parts[3] != "dashboard":
            return None
        key = Key(parts[1], parts[2])
        one = visitor.watch.snapshot().get("RayCluster", key)
        service = head_service(one) if one is not None else ""
        if not service or parts[0] != PLURALS["RayCluster"] or request.method != "GET":
            return None
        return self._settings.dashboard_links.address(session, key, service, self._now())

    def _stream(self, request: HttpRequest, visitor: Visitor, session: Session) -> HttpResponse:
        path, _, query = request.param("page").partition("?")
        pairs = tuple((name, one) for name, found in parse_qs(query).items() for one in found)

        async def render() -> Page:
            await self._check(visitor, session)
            return await self._router.page(visitor, path, pairs)

        body = page_stream(visitor, render, request.param("seen"), request.param("shape"))
        if request.flag("log"):
            body = with_job_log(body, visitor, path)
        return HttpResponse(200, body, content_type="text/event-stream")

    def _page(
        self,
        page: Page,
        visitor: Visitor | None = None,
        request: HttpRequest | None = None,
        *,
        session: Session | None = None,
    ) -> HttpResponse:
        """With a `session` alone: a page for somebody who has logged in, of whom no more is known."""
        frame = self._frame(logged_in=session is not None)
        path, query = "", ""
        if visitor is not None and request is not None:
            frame = self._frame(
                user=visitor.watch.snapshot().user,
                notice=messages.notice(request.param("done")),
                trouble=visitor.watch.trouble(),
            )
            path = request.path
            query = urlencode([pair for pair in request.query if pair[0] != "done"])
        regions = page.regions()
        text = document(page, frame, path, query, seen=digest(regions), shaped=shape(regions))
        return HttpResponse(page.status, text.encode(), content_type=_HTML)

    def _frame(
        self, *, user: str = "", notice: str = "", trouble: str = "", logged_in: bool = True
    ) -> Frame:
        return Frame(
            trouble=trouble,
            user=user,
            server=self._settings.server,
            style=self._assets.address("console.css"),
            script=self._assets.address("console.js"),
            logged_in=logged_in,
            logout=bool(self._settings.login.logout),
            notice=notice,
            history=self._router.history is not None,
        )

    def _redirect(self, to: str, cookie: str = "") -> HttpResponse:
        headers = (("Location", to), *((("Set-Cookie", cookie),) if cookie else ()))
        return HttpResponse(303, b"", headers, _HTML)


def _is_page(path: str) -> bool:
    """Whether another site may lead here: to what is read, and not on to a dashboard or another server."""
    return not path.startswith("//") and path.rpartition("/")[2] not in ("dashboard", "open")


def _status_of(error: MantaError | UsageError) -> int:
    """The visitor's own mistake keeps its status; 502 says that the API server could not answer."""
    if isinstance(error, UsageError):
        return 400
    if isinstance(error, NoLogError):
        return 404
    return error.status if isinstance(error, ApiError) and error.status < 500 else 502
