"""Which page an address means."""

from __future__ import annotations

from collections.abc import Sequence

from manta.api.meta import Key
from manta.console.pages import messages
from manta.console.pages.fleet import filter_of, fleet
from manta.console.pages.page import Page
from manta.console.pages.parts import KINDS
from manta.console.visitors import Visitor
from manta.httpserver.messages import HttpRequest, HttpResponse

Query = Sequence[tuple[str, str]]


class Router:
    async def page(self, visitor: Visitor, path: str, query: Query) -> Page:
        snapshot = visitor.watching.snapshot()
        if path == "/":
            return fleet(snapshot, filter_of(query))
        parts = path.strip("/").split("/")
        if len(parts) == 3 and parts[0] in KINDS:
            return messages.missing(f"{KINDS[parts[0]]} {Key(parts[1], parts[2])}")
        return messages.missing(f"The page {path}")

    async def download(self, visitor: Visitor, request: HttpRequest) -> HttpResponse | None:
        """A response that is not a page; None: it is one."""
        return None

    async def post(self, visitor: Visitor, request: HttpRequest) -> HttpResponse:
        raise NotImplementedError
