"""On a laptop: a one-time link logs in as the user of the kubeconfig."""

from __future__ import annotations

from manta.console.login.links import OneTimeLinks
from manta.console.login.method import Answer, Login
from manta.console.pages.login import by_link, login_page
from manta.console.pages.page import Page
from manta.console.sessions import SECONDS, Session
from manta.httpserver.messages import HttpRequest


class LinkLogin(Login):
    is_checked = False  # the link was used: without the cookie nobody could come back
    has_tokens = False  # the kubeconfig has them

    def __init__(self, links: OneTimeLinks) -> None:
        self._links = links

    def page(self, why: str = "", status: int = 200) -> Page:
        return login_page(by_link(), why, status)

    async def answer(self, request: HttpRequest, now: float) -> Answer:
        if request.method == "GET" and not request.param("token"):
            return self.page()
        if request.method != "GET" or not self._links.redeem(request.param("token"), now):
            why = "This link was used already, is older than an hour, or is of another console."
            return self.page(why, 401)
        return Session(now + SECONDS)
