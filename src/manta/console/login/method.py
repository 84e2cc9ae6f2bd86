"""What every way to log in has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from manta.console.pages.page import Page
from manta.console.sessions import Session
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.kube.errors import Unauthorized

Answer = Session | Page | HttpResponse
"""To a request below `/login`: who has logged in now, or what the browser gets instead."""


class Login(ABC):
    is_checked: ClassVar[bool] = True
    """Whether Kubernetes must accept a new session before its cookie is made, and each minute after."""
    by_cookie: ClassVar[bool] = True
    """Whether the console sets a cookie; a proxy names the user with every request instead."""
    has_tokens: ClassVar[bool] = True
    """Whether a session may hold a token, so that its cookie must be encrypted."""

    logout: str = "/login"
    """Where a browser goes after the logout; empty: nobody can log out here."""

    @abstractmethod
    def page(self, why: str = "", status: int = 200) -> Page:
        """How to log in, and what went wrong."""

    @abstractmethod
    async def answer(self, request: HttpRequest, now: float) -> Answer:
        """The answer to a request below `/login`. Raises the client's errors."""

    def session(self, request: HttpRequest, kept: Session | None, now: float) -> Session | None:
        """Whose request this is; `kept` is the session of its cookie."""
        return kept

    async def renewed(self, session: Session, now: float) -> Session:
        """The same session, or one with a newer token. Raises Unauthorized if it cannot go on."""
        if session.is_over(now):
            raise Unauthorized(401, "Unauthorized", "its token has ended")
        return session

    async def close(self) -> None:
        """Close connections, if there are any."""
        return
