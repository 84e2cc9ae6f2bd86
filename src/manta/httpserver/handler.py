"""What a server calls to answer requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from manta.httpserver.messages import (
    ANONYMOUS,
    Headers,
    HttpError,
    HttpRequest,
    HttpResponse,
    User,
    text_response,
)
from manta.httpserver.upgrade import UpgradedConnection


class Handler(ABC):
    default_headers: Headers = ()
    """Headers of every response that does not set them itself."""

    @abstractmethod
    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request. An exception is logged and becomes a 500."""

    async def authenticate(
        self, request: HttpRequest, certificate: dict[str, Any] | None
    ) -> User | None:
        """Return the sender, whose verified certificate may be given; None means 401."""
        return ANONYMOUS

    def takes_any_host(self, request: HttpRequest) -> bool:
        """Whether a request passes under a name that is not served: only one with which a web page that points its
        own name to this server (DNS rebinding) gets nothing that it could not have anyway."""
        return False

    async def upgrade(
        self, request: HttpRequest, connection: UpgradedConnection
    ) -> HttpResponse | None:
        """Serve a request with an `Upgrade` header, and return None when done.

        Returns a response if nothing was written: servers may ignore the offer to upgrade.
        """
        return await self.handle(request)

    def error_response(self, error: HttpError) -> HttpResponse:
        """Return the response to a request that the server itself refuses."""
        return text_response(error.status, f"{error.message}\n")
