"""Credentials that are renewed: token and certificate files, and exec plugins.

Files are read again every minute, plugins run again at the expiry that they reported; a 401 renews both at
once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from manta.api.times import format_time
from manta.kube import exec_plugin
from manta.kube.cluster import ExecPlugin, User
from manta.kube.errors import CredentialsError
from manta.kube.tls import read_pem

FILE_LIFETIME_SECONDS = 60.0
EXPIRY_MARGIN = timedelta(seconds=10)

WallClock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Credential:
    """Headers of a request, and the client certificate of its connection."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    repeated: tuple[tuple[str, str], ...] = ()
    """Headers whose names may occur more than once."""


class CredentialProvider(Protocol):
    async def credential(self) -> Credential:
        """The current credential. Raises CredentialsError."""
        ...

    async def renew(self, refused: Credential) -> bool:
        """Renew after a 401. True when the credential has changed, so that a retry makes sense."""
        ...

    def explain_refusal(self, refused: Credential) -> str:
        """For the error message: whose credential was refused, where it came from, its expiry."""
        ...


def credential_provider_for(user: User, now: WallClock | None = None) -> CredentialProvider:
    """The provider for this user. With `now`, a plugin runs again before its credential expires; without it,
    after a 401."""
    return (
        PluginCredentialProvider(user, user.plugin, now)
        if user.plugin
        else FileCredentialProvider(user)
    )


class FileCredentialProvider:
    """Tokens and certificates from the kubeconfig, or from files that others renew."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._token = ""
        self._current: Credential | None = None
        self._read_at = 0.0

    async def credential(self) -> Credential:
        now = asyncio.get_running_loop().time()
        if self._current is None or now - self._read_at >= FILE_LIFETIME_SECONDS:
            self._current = self._read()
            self._read_at = now
        return self._current

    async def renew(self, refused: Credential) -> bool:
        fresh = self._read()
        self._current = fresh
        self._read_at = asyncio.get_running_loop().time()
        return fresh != refused

    def explain_refusal(self, refused: Credential) -> str:
        return _why_refused(self._user, refused)

    def _read(self) -> Credential:
        user = self._user
        certificate = key = b""
        if user.certificate and user.key:
            certificate = read_pem(user.certificate, f"client-certificate of {user.origin}")
            key = read_pem(user.key, f"client-key of {user.origin}")
        return Credential(_headers(user, self._read_token()), certificate, key, user.repeated)

    def _read_token(self) -> str:
        """A token file that is empty or missing keeps its last content: it may be being replaced."""
        user = self._user
        if user.token_file is None:
            return user.token
        try:
            text = user.token_file.read_text().strip()
        except OSError as error:
            if not self._token and not user.token:
                raise CredentialsError(
                    f"cannot read the token file {user.token_file} of {user.origin}: "
                    f"{error.strerror}"
                ) from error
            text = ""
        self._token = text or self._token or user.token
        return self._token


class PluginCredentialProvider:
    """Credentials of an exec plugin, kept until they expire or are refused."""

    def __init__(self, user: User, plugin: ExecPlugin, now: WallClock | None) -> None:
        self._user = user
        self._plugin = plugin
        self._now = now
        self._current: Credential | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()

    async def credential(self) -> Credential:
        if self._current is None or self._is_old():
            async with self._running:
                # Others may have waited for the same run.
                if self._current is None or self._is_old():
                    return await self._run()
        return self._current

    async def renew(self, refused: Credential) -> bool:
        async with self._running:
            if self._current is not None and self._current != refused:
                return True
            return await self._run() != refused

    def explain_refusal(self, refused: Credential) -> str:
        return _why_refused(self._user, refused)

    def _is_old(self) -> bool:
        if self._now is None or self._expires is None:
            return False
        return self._now() >= self._expires - EXPIRY_MARGIN

    async def _run(self) -> Credential:
        got = await exec_plugin.run(self._plugin, self._user.origin)
        self._expires = got.expires
        headers, user = _headers(self._user, got.token), self._user
        self._current = Credential(headers, got.certificate, got.key, user.repeated)
        return self._current


def _headers(user: User, token: str) -> dict[str, str]:
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise CredentialsError(
            f"the token of {user.origin} contains a line break or another invalid character: "
            "copy it again, as one line"
        )
    return {**user.headers, "authorization": f"Bearer {token}"} if token else dict(user.headers)


def _why_refused(user: User, refused: Credential) -> str:
    token = refused.headers.get("authorization", "").removeprefix("Bearer ")
    if not token and not refused.certificate:
        return f"{user.origin} has no credentials: add a token, a client certificate or exec"
    where = f" (from {user.token_file})" if user.token_file else ""
    if not token:
        return f"the client certificate of {user.origin} was refused: it may have expired"
    expiry = token_expiry(token)
    until = f"; it is valid until {format_time(expiry)}" if expiry else ""
    return f"the token of {user.origin}{where} was refused{until}: get a new one"


class _Claims(msgspec.Struct):
    exp: float | None = None


def token_expiry(token: str) -> datetime | None:
    """When a JWT expires; None for other tokens."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = msgspec.json.decode(payload, type=_Claims)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        return None
    return datetime.fromtimestamp(claims.exp, UTC) if claims.exp else None
