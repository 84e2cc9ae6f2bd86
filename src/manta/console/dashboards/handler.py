"""Passes requests of a dashboard's origin to that dashboard, with the rights of the person who opened it.

Through the proxy of the API server. No cookie passes in either direction; Ray's token, if the cluster has one, is read
from its Secret with the person's rights and added here. Only GET passes, unless writes are asked for.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.client.auth_token import token_if_any
from manta.console.api.forwarding import ForwardedBody
from manta.console.dashboards.site import Site, label_of
from manta.console.dashboards.tickets import Opened, Tickets
from manta.console.html import Html, join, raw, tag
from manta.console.sessions import Cookies, TooLongError, cookie_value, is_same_origin
from manta.console.visitors import Visitor, Visitors
from manta.httpserver.handler import Handler
from manta.httpserver.messages import ANONYMOUS, Headers, HttpRequest, HttpResponse, User
from manta.kube.errors import Forbidden, MantaError, Unauthorized, Unreachable
from manta.kube.proxy import service_proxy_path
from manta.kube.transport import Request
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

OPEN: Final = "/.manta/open"
PORT_NAME: Final = "dashboard"
TOKEN_SECONDS: Final = 60.0
_MAX_TOKENS: Final = 256
_TIMEOUT_SECONDS: Final = 60.0
_READS: Final = frozenset(("GET", "HEAD"))
_REQUEST_HEADERS: Final = ("accept", "content-type", "if-none-match", "if-modified-since", "range")
_RESPONSE_HEADERS: Final = (
    "accept-ranges", "content-disposition", "content-range", "etag", "last-modified",
)  # fmt: skip
_ACTS: Final = frozenset(("kill", "kill_actor"))
"""Last words of addresses of Ray that change something by GET."""
_TRAVERSAL: Final = re.compile(
    r"(^|[/\\])\.\.?([/\\]|$)|%2e|%2f|%5c|[\x00-\x1f\x7f]", re.IGNORECASE
)
_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; font-src 'self' data:;"
    " img-src 'self' data: blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final[Headers] = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),  # no-referrer: forms would send `Origin: null`
    ("Content-Security-Policy", _POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    # The next cluster of this name has the same origin: a page of this one must not be shown there.
    ("Cache-Control", "private, no-cache"),
)


class DashboardHandler(Handler):
    default_headers = HEADERS

    def __init__(
        self,
        site: Site,
        cookies: Cookies,
        tickets: Tickets,
        visitors: Visitors,
        clock: Clock,
        *,
        console: str,
        writes: bool = False,
    ) -> None:
        """`console`: its address, for people who have to log in again."""
        self._site = site
        self._cookies = cookies
        self._tickets = tickets
        self._visitors = visitors
        self._clock = clock
        self._console = console
        self._writes = writes
        self._tokens: dict[tuple[str, Key], tuple[float, str]] = {}

    async def authenticate(self, request: HttpRequest, certificate: object) -> User:
        opened = self._opened(request)
        return ANONYMOUS if opened is None else User(f"console {opened.session.identity()}")

    async def handle(self, request: HttpRequest) -> HttpResponse:
        label = self._site.label(request.headers.get("host", ""))
        if request.path == OPEN and request.method == "GET":
            return self._open(request, label)
        if why := self._refusal(request):
            return _plain_text(403, why)
        opened = self._opened(request)
        if opened is None:
            return self._login_required()
        try:
            visitor = await self._visitors.of(opened.session)
            return await self._forward(request, opened, visitor)
        except Unauthorized:
            return self._login_required()
        except (MantaError, UsageError) as error:
            log.warning("dashboard of %s: %s", opened.key, error)
            return _plain_text(403 if isinstance(error, Forbidden) else 502, str(error))

    # ── authentication ─────────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _open(self, request: HttpRequest, label: str) -> HttpResponse:
        """A page that leads on, not a redirect: the browser came from another site, and would not send the
        new cookie with the redirected request."""
        opened = self._tickets.redeem(request.param("ticket"), self._now())
        if opened is None or label_of(opened.key) != label:
            return self._login_required()
        try:
            cookie = self._cookies.make(opened)
        except TooLongError as error:
            return _plain_text(502, str(error))
        headers = (("Set-Cookie", cookie), ("Refresh", "0; url=/"))
        return _page(200, "Dashboard", tag("a", "Continue", href="/"), headers)

    def _opened(self, request: HttpRequest) -> Opened | None:
        found = self._cookies.opened(cookie_value(request.headers, self._cookies.name), Opened)
        if found is None or found.session.is_over(self._now()):
            return None
        if self._visitors.has_left(found.session):
            return None
        label = self._site.label(request.headers.get("host", ""))
        return found if label_of(found.key) == label else None

    def _login_required(self) -> HttpResponse:
        link = tag("a", "Open the dashboard from the console", href=self._console)
        return _page(401, "Log in", link)

    def _refusal(self, request: HttpRequest) -> str:
        """Why a request does not pass; empty: it does."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        if site not in ("same-origin", "none"):
            return "a page of another dashboard or site asked for this"
        if "service-worker" in request.headers:
            return "a service worker would outlive its cluster"
        if _TRAVERSAL.search(request.path):
            return "this path does not lead to the dashboard"
        if self._writes:
            unsafe = request.method not in _READS and not is_same_origin(request.headers)
            return "only pages of this dashboard may change anything" if unsafe else ""
        acts = request.path.rstrip("/").rpartition("/")[2] in _ACTS
        if request.method not in _READS or acts:
            return "this console shows dashboards; it does not let them change anything"
        return ""

    # ── forwarding ───────────────────────────────────────────────────────────────────────

    async def _forward(
        self, request: HttpRequest, opened: Opened, visitor: Visitor
    ) -> HttpResponse:
        key = opened.key
        headers = {
            name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers
        }
        if token := await self._token(opened, visitor):
            headers["x-ray-authorization"] = f"Bearer {token}"
        path = service_proxy_path(key.namespace, opened.service, PORT_NAME, request.raw_path)
        sent = Request(
            request.method, path, request.query, headers, request.body or None, _TIMEOUT_SECONDS
        )
        context = visitor.client.transport.stream(sent)
        try:
            stream = await context.__aenter__()
        except Unreachable as error:
            return _plain_text(502, str(error))
        visitor.streams += 1
        body = ForwardedBody(context, stream, lambda: _stream_ended(visitor))
        kind = stream.headers.get("content-type", "")
        if 300 <= stream.status < 400 and stream.status != 304:
            await body.aclose()
            return _plain_text(
                502, f"the dashboard answered {stream.status}: redirects are not passed on"
            )
        if stream.status in (204, 304) or request.method == "HEAD":
            await body.aclose()
            return HttpResponse(stream.status, b"", _forwarded_headers(stream.headers), kind)
        return HttpResponse(stream.status, body, _forwarded_headers(stream.headers), kind)

    async def _token(self, opened: Opened, visitor: Visitor) -> str:
        """Ray's token of the cluster, at most a minute old; empty if it wants none."""
        name, now = (opened.session.identity(), opened.key), self._clock.monotonic()
        at, token = self._tokens.get(name, (float("-inf"), ""))
        if now - at > TOKEN_SECONDS:
            token = await token_if_any(visitor.client, opened.key)
            self._tokens.pop(name, None)
            self._tokens[name] = (now, token)
            while len(self._tokens) > _MAX_TOKENS:
                del self._tokens[next(iter(self._tokens))]
        return token


def _stream_ended(visitor: Visitor) -> None:
    visitor.streams -= 1
    visitor.visit()


def _forwarded_headers(headers: Mapping[str, str]) -> Headers:
    return tuple((name, headers[name]) for name in _RESPONSE_HEADERS if name in headers)


def _page(status: int, title: str, body: Html, headers: Headers = ()) -> HttpResponse:
    """Without style and script: on this origin they would be the dashboard's."""
    head = join([tag("meta", charset="utf-8"), tag("title", title)])
    text = join([raw("<!doctype html>"), tag("html", head, tag("p", body), lang="en")])
    own = (
        ("Content-Security-Policy", "default-src 'none'"),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),  # its address has a ticket
    )
    return HttpResponse(status, text.encode(), (*own, *headers), "text/html; charset=utf-8")


def _plain_text(status: int, why: str) -> HttpResponse:
    headers = (("Cache-Control", "no-store"),)
    return HttpResponse(status, f"{why}\n".encode(), headers, "text/plain; charset=utf-8")
