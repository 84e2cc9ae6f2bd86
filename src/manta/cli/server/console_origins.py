"""Puts a console together: its handler, the origins of dashboards, and the host names of both."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult

from manta.cli.server.console_logins import cookies_of
from manta.console.action_executor import Commands
from manta.console.api.handler import RayApi
from manta.console.dashboards.handler import DashboardHandler
from manta.console.dashboards.origins import DashboardLinks, Origins
from manta.console.dashboards.site import Site
from manta.console.dashboards.tickets import Tickets
from manta.console.history import History
from manta.console.login.method import Login
from manta.console.operators import LocalMetrics
from manta.console.router import Router
from manta.console.server import ConsoleHandler, Settings
from manta.console.visitors import Visitors
from manta.httpserver.handler import Handler
from manta.runtime.clock import Clock

DASHBOARDS = "manta-dashboard.localhost"
"""Another site than the console's, so that a dashboard's pages get none of its cookies."""


@dataclass(frozen=True, slots=True)
class Parts:
    url: SplitResult
    """The address of the console in browsers."""
    key: bytes
    """The key of the cookies."""
    login: Login
    visitors: Visitors
    api: RayApi
    commands: Commands
    clock: Clock
    server: str
    dashboards: SplitResult | None = None
    """The address below which each dashboard has a name; None: they are not served."""
    writes: bool = False
    """Whether dashboards may change anything."""
    metrics: LocalMetrics | None = None
    history: History | None = None


def put_together(parts: Parts) -> tuple[Handler, frozenset[str]]:
    """The handler, and the host names that it is for."""
    site = Site.of(parts.dashboards) if parts.dashboards is not None else None
    dashboard_links = DashboardLinks(site, Tickets()) if site is not None else None
    encrypted = parts.login.has_tokens
    own_cookies = cookies_of(parts.key, parts.url, encrypted=encrypted)
    settings = Settings(own_cookies, parts.login, parts.server, dashboard_links)
    router = Router(
        parts.commands, parts.metrics, dashboards=dashboard_links is not None, history=parts.history
    )
    console = ConsoleHandler(settings, parts.visitors, router, parts.api, parts.clock)
    names = {parts.url.hostname or ""}
    if site is None or dashboard_links is None or parts.dashboards is None:
        return console, frozenset(names)
    cookies = cookies_of(parts.key, parts.dashboards, "dashboard", encrypted=encrypted)
    dashboards = DashboardHandler(
        site,
        cookies,
        dashboard_links.tickets,
        parts.visitors,
        parts.clock,
        console=parts.url.geturl(),
        writes=parts.writes,
    )
    return Origins(site, console, dashboards), frozenset({*names, site.hosts})
