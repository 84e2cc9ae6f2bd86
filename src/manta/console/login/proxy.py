"""Behind a proxy that has logged people in: the console impersonates the user whom the proxy names.

Opt-in, as the console then has a right of its own (`impersonate`). A request counts only with the secret that the
proxy and the console share. Names that begin with `system:` are refused: no proxy has a reason to make somebody
`system:masters`.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

from manta.console.login.method import Answer, Login
from manta.console.pages.login import by_proxy, login_page
from manta.console.pages.page import Page
from manta.console.sessions import Session
from manta.httpserver.messages import HttpRequest

SECRET_HEADER: Final = "x-manta-proxy-secret"  # noqa: S105 - the name of a header
MIN_SECRET: Final = 32
_SECONDS: Final = 3600.0
_MAX_NAME: Final = 256
_MAX_GROUPS: Final = 200
_RESERVED: Final = "system:"


@dataclass(frozen=True, slots=True)
class Proxy:
    secret: str = field(repr=False)
    user_header: str = "x-forwarded-user"
    groups_header: str = "x-forwarded-groups"
    only: frozenset[str] = frozenset()
    """Groups that count; empty: all."""
    logout: str = ""
    """The address at which the proxy logs people out."""


class ProxyLogin(Login):
    by_cookie = False

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.logout = proxy.logout

    def page(self, why: str = "", status: int = 200) -> Page:
        return login_page(by_proxy(), why, status)

    async def answer(self, request: HttpRequest, now: float) -> Answer:
        return self.page(status=404)

    def session(self, request: HttpRequest, kept: Session | None, now: float) -> Session | None:
        """None without the secret, or with a name that is no user's."""
        headers = request.headers
        given, wanted = headers.get(SECRET_HEADER, "").encode(), self._proxy.secret.encode()
        if not hmac.compare_digest(given, wanted):
            return None
        user = headers.get(self._proxy.user_header.lower(), "").strip()
        listed = headers.get(self._proxy.groups_header.lower(), "").split(",")
        groups = tuple(dict.fromkeys(one.strip() for one in listed if one.strip()))
        # A comma: a header that was there twice, and only one of them is the proxy's.
        if "," in user or len(groups) > _MAX_GROUPS or not all(map(_is_name, (user, *groups))):
            return None
        only = self._proxy.only
        counted = tuple(one for one in groups if not only or one in only)
        return Session(now + _SECONDS, user=user, groups=counted)


def _is_name(text: str) -> bool:
    shown = text.isascii() and text.isprintable()
    return 0 < len(text) <= _MAX_NAME and shown and not text.startswith(_RESERVED)
