"""Serves `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from manta.httpserver.address import Address
from manta.httpserver.handler import Handler
from manta.httpserver.limits import Limits
from manta.httpserver.messages import HttpRequest, HttpResponse, text_response
from manta.httpserver.server import HttpService

LIMITS = Limits(body_bytes=0, anonymous_request_seconds=5.0)
"""Anyone may connect, and no request to a page has a body."""

Pages = Mapping[str, Callable[[HttpRequest], HttpResponse]]
"""By path."""


def ping(_: HttpRequest) -> HttpResponse:
    return text_response(200, "ok")


class PageServer(HttpService):
    """Serves pages that are computed at each request."""

    def __init__(self, address: Address, pages: Pages) -> None:
        super().__init__(address, _PageHandler(pages), LIMITS)


class _PageHandler(Handler):
    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            return text_response(405, "only GET and HEAD")
        page = self._pages.get(request.path) or self._pages.get(request.path.rstrip("/"))
        return page(request) if page else text_response(404, "not found")
