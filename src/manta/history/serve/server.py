"""Routes requests below `/history/<namespace>/<kind>/<name>/<session>/`.

Every request is authenticated by a bearer token, or by a cookie that a token was exchanged for, and carries
its session in its path: no cookie binds a browser to one cluster. Only GET is answered, but for the login.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
import secrets
import sqlite3
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs, quote

import msgspec

from manta.history.catalog import Catalog
from manta.history.index.queries import FilterError
from manta.history.layout import InvalidName, SessionKey
from manta.history.logs import MAX_LINES
from manta.history.serve.access import Access
from manta.history.serve.answers import ENDPOINTS, ITEMS, UNAVAILABLE, is_known
from manta.history.serve.frontend import Frontend, nearest
from manta.history.serve.overview import PREFIX, Live, Overview, html_page
from manta.history.serve.sessions import IndexPendingError, MakeIndex, OpenSessions, in_thread
from manta.history.serve.shapes import JsonStream, NotFoundError, Query, Session
from manta.history.serve.stored import stored_answer
from manta.history.store import StoreError
from manta.history.task_logs import LogRange, LogRequest, NoLog, find_log
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, User, text_response
from manta.kube.errors import MantaError

log = logging.getLogger(__name__)

_LOGIN_SECONDS: Final = 8 * 3600.0
_MAX_LOGINS: Final = 1000
_MIB: Final = 1024 * 1024
LIMITS: Final = Limits(body_bytes=64 * 1024, client_bytes=48 * _MIB, total_bytes=64 * _MIB)
_PAGE_POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:;"
    " object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_encode: Final = msgspec.json.Encoder().encode


class HistoryHandler(Handler):
    default_headers = (
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", _PAGE_POLICY),
    )

    def __init__(
        self,
        catalog: Catalog,
        access: Access,
        frontends: Sequence[Frontend],
        *,
        secure: bool,
        make_index: MakeIndex | None = None,
        live: Live | None = None,
    ) -> None:
        """`secure`: the browser comes by HTTPS. `make_index`: a thread of this process by default.
        `live` finds the clusters that run now."""
        self._catalog = catalog
        self._access = access
        self._frontends = frontends
        self._secure = secure
        # Browsers send cookies to every port of a host: two servers on one machine need two names.
        self.cookie = f"manta-history-{sha256(catalog.store.url.encode()).hexdigest()[:8]}"
        self._logins: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """Bearer tokens by the value of their cookie."""
        self._overview = Overview(catalog, access, live)
        self._open = OpenSessions(catalog, make_index or in_thread(catalog))
        self._turn = asyncio.Lock()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.path in ("/healthz", "/readyz", "/livez"):
            return text_response(200, "ok")
        if request.path == "/favicon.ico":  # browsers ask, and would report a 404 as an error
            return HttpResponse(204)
        if request.path == f"{PREFIX}login":
            return await self._login(request)
        if request.path == f"{PREFIX}link" and request.method == "POST":
            return await self._link(request)
        if request.method not in ("GET", "HEAD"):
            return _error(405, "only GET")
        if request.path in ("/", "/history"):
            return HttpResponse(302, headers=(("Location", PREFIX),))
        if not request.path.startswith(PREFIX) or not _is_text(request):
            return _error(404, "not found")
        try:
            return await self._authenticated(request)
        except (StoreError, MantaError, sqlite3.DatabaseError) as error:
            log.warning("%s: %s", request.path, error)
            return _error(503, f"the history cannot be read now: {error}")
        except IndexPendingError as pending:
            return _pending(request, str(pending))

    async def close(self) -> None:
        await self._open.close()

    # ── who asks ─────────────────────────────────────────────────────────────────────────
    async def _authenticated(self, request: HttpRequest) -> HttpResponse:
        user = await self._access.user(self._token(request))
        if user is None:
            if "text/html" in request.headers.get("accept", ""):
                return html_page(401, "Log in", _LOGIN)
            return _error(401, "a bearer token is required")
        if request.path == PREFIX:
            return await self._overview.page(request, user, self._token(request))
        return await self._of_session(request, user)

    def _token(self, request: HttpRequest) -> str:
        if (token := _bearer(request)) is not None:
            return token
        try:
            cookie = SimpleCookie(request.headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        since, known = self._logins.get(cookie.value if cookie else "", (0.0, ""))
        return known if time.monotonic() - since < _LOGIN_SECONDS else ""

    async def _login(self, request: HttpRequest) -> HttpResponse:
        """Exchange a token for a cookie: from a form, or once from a link."""
        if request.method == "POST":
            site = request.headers.get("sec-fetch-site", "same-origin")
            if site not in ("same-origin", "none"):
                return _error(403, "a login must come from this page")
            fields = parse_qs(request.body.decode("latin-1"))
            token = fields.get("token", [""])[0].strip()
        elif request.method == "GET":
            token = request.param("token")
        else:  # above all HEAD: what only looks at a link must not use it up
            return _error(405, "only GET and POST")
        if not token:
            return html_page(200, "Log in", _LOGIN)
        try:
            bearer = await self._access.login(token)
        except MantaError as error:
            log.warning("login: %s", error)
            return _error(503, f"the token cannot be checked now: {error}")
        if bearer is None:
            return html_page(401, "Log in", f"<p>{self._access.refused}</p>{_LOGIN}")
        return self._logged_in(bearer, _place(request.param("to")))

    def _logged_in(self, bearer: str, to: str) -> HttpResponse:
        name = secrets.token_urlsafe(32)
        self._logins[name] = (time.monotonic(), bearer)
        while len(self._logins) > _MAX_LOGINS:
            self._logins.popitem(last=False)
        more = "; Secure" if self._secure else ""
        cookie = f"{self.cookie}={name}; Path=/history; HttpOnly; SameSite=Strict{more}"
        return html_page(200, "History", f'<p>Logged in. <a href="{to}">Sessions</a></p>', (("Set-Cookie", cookie), ("Refresh", f"0; url={to}")))  # fmt: skip

    async def _link(self, request: HttpRequest) -> HttpResponse:
        """A new link, for a command or a console that has a user's token; a cookie is not enough."""
        try:
            token = await self._access.new_link(_bearer(request) or "")
        except MantaError as error:
            log.warning("link: %s", error)
            return _error(503, f"the token cannot be checked now: {error}")
        if token is None:
            return _error(403, "links are for the bearers of valid tokens")
        return _json(200, {"path": f"{PREFIX}login?token={token}"})

    # ── pages ────────────────────────────────────────────────────────────────────────────
    async def _of_session(self, request: HttpRequest, user: User) -> HttpResponse:
        parts = request.path.removeprefix(PREFIX).split("/", 4)
        try:
            key = SessionKey(*parts[:4]).checked()
        except (InvalidName, TypeError):
            return _error(404, "no such session")
        if not await self._access.may_read(user, key):
            return _error(403, f"{user.name} may not read {key.path}")
        if len(parts) == 4:
            return HttpResponse(302, headers=(("Location", f"{PREFIX}{quote(key.path)}/"),))
        return await self._in_session(request, key, parts[4])

    async def _in_session(self, request: HttpRequest, key: SessionKey, rest: str) -> HttpResponse:
        query: dict[str, list[str]] = {}
        for name, value in request.query:
            query.setdefault(name, []).append(value)
        opened = await self._open.get(key)
        if opened is None:
            return _error(404, "no such session")
        async with self._turn:  # one query at a time: memory stays small
            answer = await asyncio.to_thread(self._answer, opened, rest, query)
        if isinstance(answer, LogRange):
            return self._log_response(opened, answer, query)
        return answer

    def _answer(self, session: Session, rest: str, query: Query) -> HttpResponse | LogRange:
        path = rest.strip("/")
        try:
            if path == "api/v0/logs/file":
                return find_log(session.database, session.reader, _log_request(query))
            if path in UNAVAILABLE:
                return _json(500, {"result": False, "msg": UNAVAILABLE[path], "data": {}})
            if (stored := stored_answer(session, path, query, known=is_known(path))) is not None:
                return HttpResponse(200, stored)
            if path in ENDPOINTS:
                return _json(200, ENDPOINTS[path](session, query))
            before, _, name = path.rpartition("/")
            if before in ITEMS:
                return _json(200, ITEMS[before](session, query, name))
        except (NotFoundError, NoLog, InvalidName) as error:
            return _error(404, str(error))
        except FilterError as error:
            return _error(400, str(error))
        if path == "api/v0/logs/stream":
            return _error(501, "a session that is over has no log to follow: use api/v0/logs/file")
        return self._static(session, rest)

    def _static(self, session: Session, rest: str) -> HttpResponse:
        frontend = nearest(self._frontends, session.ray_version)
        if frontend is None:
            words = (
                "<p>No frontend of Ray is installed beside this server: <code>pip install ray[default]</code>, or name"
                " an environment with <code>--frontend</code>. The API below this address works.</p>"
            )
            return html_page(200 if rest == "" else 404, "History", words)
        found = frontend.file(rest or "index.html")
        if found is None:
            return _error(404, "not found")
        content, kind = found
        caching = () if kind == "text/html" else (("Cache-Control", "private, max-age=3600"),)
        return HttpResponse(200, content, caching, content_type=kind)

    # ── logs ─────────────────────────────────────────────────────────────────────────────
    def _log_response(self, session: Session, found: LogRange, query: Query) -> HttpResponse:
        lines = query.get("lines", ["1000"])[0]
        reader = session.reader
        span = (found.start, found.end)
        name = query.get("download_filename", query.get("download_file_name", ["file.txt"]))[0]
        safe = "".join(one for one in name if one.isalnum() or one in "-_.") or "file.txt"
        headers = (
            ("Content-Disposition", f'attachment; filename="{safe}"'),
            ("Content-Security-Policy", "sandbox"),
        )
        if not lines.isdecimal() or len(lines) > 9:  # above all -1: the whole file
            body: AsyncIterator[bytes] = _in_thread(
                lambda: reader.read(found.pod, found.path, *span)
            )
        else:
            count = min(int(lines), MAX_LINES)
            body = _in_thread(lambda: iter([reader.tail(found.pod, found.path, count, span)]))
        if query.get("filter_ansi_code", [""])[0].lower() == "true":
            body = without_colours(body)
        return HttpResponse(200, body, headers, content_type="text/plain; charset=utf-8")


def _place(path: str) -> str:
    """The address of a session after a login; of all of them, if this is none."""
    try:
        return f"{PREFIX}{quote(SessionKey(*path.split('/')).checked().path)}/"
    except (InvalidName, TypeError):
        return PREFIX


def _is_text(request: HttpRequest) -> bool:
    """Whether path and query can be written as UTF-8: no name in a store is anything else."""
    try:
        "".join((request.path, *(word for pair in request.query for word in pair))).encode()
    except UnicodeEncodeError:
        return False
    return True


def _bearer(request: HttpRequest) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


_COLOUR: Final = re.compile(rb"\x1b\[[\d;]+m")
_CUT_OFF: Final = re.compile(rb"\x1b(\[[\d;]{0,30})?\Z")


async def without_colours(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Without the escape codes that Ray's dashboard leaves out on request, also those cut by two parts."""
    rest = b""
    async for part in parts:
        whole = rest + part
        cut = _CUT_OFF.search(whole)
        rest = cut.group() if cut else b""
        if kept := _COLOUR.sub(b"", whole[: len(whole) - len(rest)]):
            yield kept
    if rest:
        yield rest


async def _in_thread(start: Callable[[], Any]) -> AsyncIterator[bytes]:
    parts = await asyncio.to_thread(start)
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        if part:
            yield part


def _log_request(query: Query) -> LogRequest:
    def first(name: str) -> str:
        return query.get(name, [""])[0]

    pid, attempt = first("pid"), first("attempt_number")
    if not any(map(first, ("filename", "task_id", "actor_id", "pid", "submission_id"))):
        raise NoLog("name a log: filename, task_id, actor_id, pid or submission_id")
    return LogRequest(
        node=first("node_id") or first("node_ip"),
        file=first("filename"),
        task=first("task_id"),
        attempt=int(attempt) if attempt.isdecimal() and len(attempt) < 10 else None,
        actor=first("actor_id"),
        pid=int(pid) if pid.isdecimal() and len(pid) < 10 else None,
        submission=first("submission_id"),
        suffix="err" if first("suffix") == "err" else "out",
    )


def _json(status: int, body: Any) -> HttpResponse:
    if isinstance(body, JsonStream):
        return HttpResponse(status, _in_thread(lambda: body.parts))
    return HttpResponse(status, _encode(body))


def _pending(request: HttpRequest, message: str) -> HttpResponse:
    """503, with a page that loads itself again for browsers."""
    if "text/html" in request.headers.get("accept", ""):
        return html_page(503, "Please wait", f"<p>{html.escape(message)}</p>", (("Refresh", "5"),))
    answer = _error(503, message)
    return replace(answer, headers=(*answer.headers, ("Retry-After", "5")))


def _error(status: int, message: str) -> HttpResponse:
    return _json(status, {"result": False, "msg": message, "data": {}})


_LOGIN: Final = (
    f'<form method="post" action="{PREFIX}login"><p>A token of Kubernetes, such as the output of'
    " <code>kubectl create token NAME</code>: <input type=password name=token autocomplete=off>"
    " <button>Log in</button></p></form>"
)
