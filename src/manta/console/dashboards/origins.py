"""One listener, several origins: the console, and a dashboard for each cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote

import msgspec

from manta.api.meta import Key
from manta.console.dashboards.handler import OPEN, DashboardHandler
from manta.console.dashboards.site import Site
from manta.console.dashboards.tickets import Opened, Tickets
from manta.console.sessions import Session
from manta.httpserver.handler import Handler
from manta.httpserver.messages import HttpError, HttpRequest, HttpResponse, User
from manta.httpserver.upgrade import UpgradedConnection


@dataclass(frozen=True, slots=True)
class DashboardLinks:
    """How the console leads to dashboards."""

    site: Site
    tickets: Tickets

    def address(self, session: Session, key: Key, service: str, now: float) -> str:
        """An address that opens the dashboard of a cluster, once."""
        shown = msgspec.structs.replace(session, refresh="")  # it ends with its token
        opened = Opened(shown, key.namespace, key.name, service)
        ticket = quote(self.tickets.new(opened, now), safe="")
        return f"{self.site.address(key)}{OPEN}?ticket={ticket}"


class Origins(Handler):
    def __init__(self, site: Site, console: Handler, dashboards: DashboardHandler) -> None:
        self._site = site
        self._console = console
        self._dashboards = dashboards
        self.default_headers = console.default_headers

    def _of(self, request: HttpRequest) -> Handler:
        named = self._site.label(request.headers.get("host", ""))
        return self._dashboards if named else self._console

    def takes_any_host(self, request: HttpRequest) -> bool:
        return self._of(request).takes_any_host(request)

    async def authenticate(
        self, request: HttpRequest, certificate: dict[str, object] | None
    ) -> User | None:
        return await self._of(request).authenticate(request, certificate)

    async def upgrade(
        self, request: HttpRequest, connection: UpgradedConnection
    ) -> HttpResponse | None:
        if self._of(request) is self._console:
            return await self._console.upgrade(request, connection)
        return await self.handle(request)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        handler = self._of(request)
        answer = await handler.handle(request)
        if handler is self._console:
            return answer
        given = {name.lower() for name, _ in answer.headers}
        own = tuple(one for one in handler.default_headers if one[0].lower() not in given)
        return replace(answer, headers=(*answer.headers, *own))

    def error_response(self, error: HttpError) -> HttpResponse:
        return self._console.error_response(error)
