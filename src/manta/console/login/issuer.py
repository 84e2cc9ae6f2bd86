"""What the console asks an OIDC issuer: where to send people, and tokens for a code.

The signature of an id_token is not verified here: it comes from the issuer itself over TLS, and the API server,
which verifies it, is the only one that grants anything for it. The claims are checked.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from manta.console.fetch import MAX_BYTES, Fetch
from manta.kube.errors import MantaError, Unauthorized

SKEW_SECONDS: Final = 60.0
"""How much the clocks of the issuer and of the console may differ."""
_OFFLINE: Final = "offline_access"
_DISCOVERY: Final = "/.well-known/openid-configuration"
_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_FORM: Final = "application/x-www-form-urlencoded"


class IssuerError(MantaError):
    """The issuer does not answer as OpenID Connect says."""


@dataclass(frozen=True, slots=True)
class Client:
    """The console, as the issuer knows it."""

    issuer: str
    id: str
    secret: str = field(default="", repr=False)
    """Empty: a public client, which PKCE alone protects."""
    scopes: str = "openid email"


class Endpoints(msgspec.Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Tokens(msgspec.Struct, frozen=True):
    id_token: str = ""
    refresh_token: str = ""
    error: str = ""
    error_description: str = ""

    def __repr__(self) -> str:
        return "Tokens(...)"


class Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: str | tuple[str, ...]
    exp: float
    nonce: str = ""
    azp: str = ""


class Issuer:
    def __init__(self, client: Client, fetch: Fetch) -> None:
        self.client = client
        self._fetch = fetch
        self._endpoints: Endpoints | None = None

    async def endpoints(self) -> Endpoints:
        """Asked for once. Raises IssuerError, and Unreachable."""
        if self._endpoints is None:
            found = await self._fetch("GET", self.client.issuer.rstrip("/") + _DISCOVERY)
            if found.status != 200:
                raise IssuerError(f"{self.client.issuer}{_DISCOVERY}: HTTP {found.status}")
            self._endpoints = self._checked(_decoded(found.body, Endpoints))
        return self._endpoints

    def _checked(self, found: Endpoints) -> Endpoints:
        if found.issuer != self.client.issuer:
            raise IssuerError(
                f"the issuer calls itself {found.issuer[:200]!r}, not {self.client.issuer!r}: use its own"
                " spelling, which the API server needs too"
            )
        scheme = urlsplit(self.client.issuer).scheme
        for url in (found.authorization_endpoint, found.token_endpoint):
            if urlsplit(url).scheme not in ("https", scheme):
                raise IssuerError(f"the issuer has an endpoint without TLS: {url[:200]!r}")
        return found

    async def authorization_address(self, fields: Mapping[str, str]) -> str:
        """Where a person logs in."""
        base = (await self.endpoints()).authorization_endpoint
        asked = {
            "response_type": "code",
            "client_id": self.client.id,
            "scope": self.client.scopes,
            **fields,
        }
        if _OFFLINE in self.client.scopes.split():
            asked["prompt"] = "consent"  # OpenID Connect Core, 11: without it the scope is ignored
        return f"{base}{'&' if '?' in base else '?'}{urlencode(asked)}"

    async def tokens(self, fields: Mapping[str, str]) -> Tokens:
        """Exchange a code or a refresh token. Raises Unauthorized if the issuer refuses, IssuerError,
        Unreachable."""
        endpoints = await self.endpoints()
        sent, headers = dict(fields), {"content-type": _FORM, "accept": "application/json"}
        if not self.client.secret:
            sent["client_id"] = self.client.id
        elif "client_secret_basic" in endpoints.token_endpoint_auth_methods_supported:
            headers["authorization"] = _basic(self.client)
        else:
            sent |= {"client_id": self.client.id, "client_secret": self.client.secret}
        answer = await self._fetch(
            "POST", endpoints.token_endpoint, headers, urlencode(sent).encode()
        )
        found = _decoded(answer.body, Tokens)
        if found.error or answer.status != 200:
            why = f"{found.error[:80]} {found.error_description[:200]}".strip()
            text = f"the issuer gave no token: {why or f'HTTP {answer.status}'}"
            if 400 <= answer.status < 500:
                raise Unauthorized(401, "Unauthorized", text)
            raise IssuerError(text)
        return found

    def claims(self, token: str, now: float) -> Claims:
        """The claims of an id_token of this issuer for this client. Raises IssuerError."""
        try:
            _, payload, _ = token.split(".")
            plain = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
            found = msgspec.json.decode(plain, type=Claims)
        except (ValueError, msgspec.MsgspecError) as error:
            raise IssuerError("the issuer gave no id_token") from error
        audience = (found.aud,) if isinstance(found.aud, str) else found.aud
        if found.iss != self.client.issuer:
            raise IssuerError("the id_token is of another issuer")
        if self.client.id not in audience or found.azp not in ("", self.client.id):
            raise IssuerError("the id_token is for another client")
        if found.exp + SKEW_SECONDS <= now:
            raise IssuerError("the id_token is over already: compare the clocks")
        return found


def _basic(client: Client) -> str:
    plain = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
    return f"Basic {base64.b64encode(plain.encode()).decode()}"


def _decoded(body: bytes, into: type[_Answer]) -> _Answer:
    if len(body) > MAX_BYTES:
        raise IssuerError("the issuer answered with too much")
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.MsgspecError as error:
        raise IssuerError(f"the issuer's answer is not understood: {error}") from error
