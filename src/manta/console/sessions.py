"""Who has logged in: encrypted cookies.

A cookie holds the user's own bearer token (none on a laptop, where the kubeconfig's user is meant), so that the
console stores nobody's credentials. It is encrypted and authenticated with a key that outlives a restart: tabs
that are open recover by themselves.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
SECONDS: Final = 12 * 3600
"""How long a login lasts."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    expires: float
    token: str = ""
    """Bearer token of the user; empty: the user of the kubeconfig."""
    namespaces: tuple[str, ...] = ()
    """Where to look if the user may not list all namespaces."""


class Cookies:
    def __init__(self, key: bytes, *, port: int = 0, secure: bool = False) -> None:
        """`secure`: browsers come by HTTPS. Ports share the cookies of a host, so the name has the port."""
        self.name = "__Host-manta-console" if secure else f"manta-console-{port}"
        self._key = key
        self._secure = secure

    def make(self, session: Session) -> str:
        """The value of a Set-Cookie header."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher().encrypt(nonce, msgspec.json.encode(session), self._bound())
        value = base64.urlsafe_b64encode(sealed).decode().rstrip("=")
        return f"{self.name}={value}; {self._attributes()}; Max-Age={SECONDS}"

    def forget(self) -> str:
        return f"{self.name}=; {self._attributes()}; Max-Age=0"

    def session(self, headers: Mapping[str, str], now: float) -> Session | None:
        """The session of a request; None if it has none, or one that is forged or over."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.name)
        except CookieError:
            return None
        if found is None or len(found.value) > 16_384:
            return None
        try:
            sealed = base64.urlsafe_b64decode(found.value + "=" * (-len(found.value) % 4))
            plain = self._cipher().decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._bound()
            )
            session = msgspec.json.decode(plain, type=Session)
        except (ValueError, InvalidTag, msgspec.MsgspecError):
            return None
        return session if session.expires > now else None

    def _attributes(self) -> str:
        return f"Path=/; HttpOnly; SameSite=Strict{'; Secure' if self._secure else ''}"

    def _bound(self) -> bytes:
        return self.name.encode()

    def _cipher(self) -> AESGCM:
        return AESGCM(self._key)


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
