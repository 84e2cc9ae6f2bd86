"""A pasted bearer token of Kubernetes, such as that of a ServiceAccount."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs

from manta.console.login.method import Answer, Login
from manta.console.pages.login import login_page, token_form
from manta.console.pages.page import Page
from manta.console.sessions import SECONDS, Session
from manta.httpserver.messages import HttpRequest

_MAX_BYTES: Final = 16_384
_MAX_NAMESPACES: Final = 64
_IS_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_IS_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class TokenLogin(Login):
    def page(self, why: str = "", status: int = 200) -> Page:
        return login_page(token_form(), why, status)

    async def answer(self, request: HttpRequest, now: float) -> Answer:
        if request.method != "POST":
            return self.page()
        if len(request.body) > _MAX_BYTES:
            return self.page("The form is too long for a token.", 413)
        fields = parse_qs(request.body.decode("latin-1"))
        token = fields.get("token", [""])[0].strip().removeprefix("Bearer ").strip()
        if not _IS_TOKEN.fullmatch(token):
            why = "The token has spaces or other characters of no token." if token else ""
            return self.page(why or "The token is missing.", 400)
        namespaces, why = namespaces_of(fields.get("namespaces", [""])[0])
        if why:
            return self.page(why, 400)
        return Session(now + SECONDS, token, namespaces)


def namespaces_of(text: str) -> tuple[tuple[str, ...], str]:
    """The namespaces of a form, and what is wrong with them."""
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if len(found) > _MAX_NAMESPACES:
        return (), f"Name at most {_MAX_NAMESPACES} namespaces."
    if wrong := next((one for one in found if not _IS_NAMESPACE.fullmatch(one)), ""):
        return (), f"{wrong[:80]} is not the name of a namespace."
    return found, ""
