"""Who has logged in: cookies that nobody else can make.

A cookie holds the user's own bearer token, so that the console stores nobody's credentials; it is encrypted. On a
laptop, where the kubeconfig's user is meant, it holds no token and is signed. The key outlives a restart: tabs that
are open recover by themselves.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final, TypeVar

import msgspec

from manta.console.sealing import Encryption, Sealing, Signature

_Content = TypeVar("_Content", bound=msgspec.Struct)
KEY_BYTES: Final = 32
SECONDS: Final = 12 * 3600
"""How long a login lasts."""
MAX_COOKIE: Final = 4096
"""Bytes of name, value and attributes: browsers drop a longer cookie without a word."""


MAX_ENDED: Final = 10_000
"""Logins that are remembered as ended."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    expires: float
    token: str = ""
    """Bearer token of the user; empty: the user of the kubeconfig."""
    namespaces: tuple[str, ...] = ()
    """Where to look if the user may not list all namespaces."""
    refresh: str = ""
    """The refresh token of an OIDC issuer."""
    token_expires: float = 0.0
    """When the token ends and a new one is asked for; 0: unknown."""
    user: str = ""
    """Who to impersonate: of a proxy that has logged the user in."""
    groups: tuple[str, ...] = ()
    login: str = ""
    """Random, the same in all cookies that come of one login; empty: of a proxy, with every request."""

    def is_over(self, now: float) -> bool:
        """Whether the login or its token has ended."""
        return now >= self.expires or 0.0 < self.token_expires <= now

    def identity(self) -> str:
        """The same for all sessions that see the same things."""
        parts = (self.token, self.user, *self.groups, "", *self.namespaces)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class EndedLogins:
    """Whose cookie works no longer, although its time is not over: a copy of it, and those of dashboards.

    In memory: a restart forgets them. A browser that logs out drops its own cookie in any case.
    """

    def __init__(self) -> None:
        self._logins: OrderedDict[str, None] = OrderedDict()

    def add(self, session: Session) -> None:
        self._logins[session.login] = None
        while len(self._logins) > MAX_ENDED:
            self._logins.popitem(last=False)

    def __contains__(self, session: Session) -> bool:
        return session.login in self._logins


class TooLongError(Exception):
    """A browser would drop a cookie with this session."""


class Cookies:
    def __init__(
        self,
        key: bytes,
        *,
        port: int = 0,
        secure: bool = False,
        about: str = "console",
        encrypted: bool = True,
    ) -> None:
        """`secure`: browsers come by HTTPS. Ports share the cookies of a host, so the name has the port.
        `encrypted`: the sessions have tokens; those that have none are only signed."""
        self.name = f"__Host-manta-{about}" if secure else f"manta-{about}-{port}"
        self._sealing: Sealing = Encryption(key) if encrypted else Signature(key)
        self._secure = secure

    def make(self, content: msgspec.Struct) -> str:
        """The value of a Set-Cookie header. Raises TooLongError if no browser would keep it."""
        made = f"{self.name}={self.seal(content)}; {self._attributes()}; Max-Age={SECONDS}"
        if len(made) > MAX_COOKIE:
            raise TooLongError(f"the cookie of this login has {len(made)} bytes of {MAX_COOKIE}")
        return made

    def seal(self, content: msgspec.Struct) -> str:
        """Compressed, as tokens are text of base64."""
        plain = zlib.compress(msgspec.json.encode(content), 9)
        sealed = self._sealing.seal(plain, self.name.encode())
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def attempt(self, content: msgspec.Struct, seconds: int) -> str:
        """The value of a Set-Cookie header that comes back from another site's link."""
        attributes = self._attributes().replace("SameSite=Strict", "SameSite=Lax")
        return f"{self.name}={self.seal(content)}; {attributes}; Max-Age={seconds}"

    def forget(self) -> str:
        return f"{self.name}=; {self._attributes()}; Max-Age=0"

    def session(self, headers: Mapping[str, str], now: float) -> Session | None:
        """The session of a request; None if it has none, or one that is forged or over."""
        session = self.opened(cookie_value(headers, self.name), Session)
        return session if session is not None and session.expires > now else None

    def opened(self, value: str, into: type[_Content]) -> _Content | None:
        """What was sealed; None if it is missing or forged."""
        if not value or len(value) > MAX_COOKIE:
            return None
        try:
            sealed = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            plain = self._sealing.open(sealed, self.name.encode())
            return msgspec.json.decode(zlib.decompress(plain), type=into) if plain else None
        except (ValueError, zlib.error, msgspec.MsgspecError):
            return None

    def _attributes(self) -> str:
        return f"Path=/; HttpOnly; SameSite=Strict{'; Secure' if self._secure else ''}"


def cookie_value(headers: Mapping[str, str], name: str) -> str:
    """The value of a cookie; empty if there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether an unsafe request comes from a page of this server: a browser says so, and no page can lie.

    Sec-Fetch-Site decides; of a browser without it, Origin must name this host.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin", "")
    _, _, host = origin.partition("://")
    return bool(host) and host.lower() == headers.get("host", "").lower()
