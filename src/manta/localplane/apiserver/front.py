"""Ties the HTTP front to the App: who asks, what is answered, and what leaves HTTP."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.messages import HttpRequest, HttpResponse, User
from manta.localplane.apiserver.streaming.pipe import Pipe


class Front:
    """The handler behind the sockets."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def authenticate(self, request: HttpRequest, peer: dict[str, Any] | None) -> User | None:
        return self._app.authenticator.authenticate(request, peer)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        return await self._app.handle(request)

    async def upgrade(self, request: HttpRequest, pipe: Pipe) -> HttpResponse | None:
        return await self._app.upgrade(request, pipe)
