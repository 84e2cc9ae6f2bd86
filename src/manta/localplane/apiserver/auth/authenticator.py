"""Authentication by client certificate, static token or service account token."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from manta.httpserver.messages import ANONYMOUS, HttpRequest, User
from manta.localplane.apiserver.auth.tokens import AUDIENCES, Accepted, Tokens

AUTHENTICATED = "system:authenticated"
ADMIN = User("admin", ("system:masters", AUTHENTICATED), uid="admin")
OPEN_PATHS = frozenset(("/healthz", "/livez", "/readyz", "/version"))


class Authenticator:
    def __init__(self, static: Mapping[str, User], tokens: Tokens | None) -> None:
        self._static = dict(static)
        self._tokens = tokens

    def authenticate(self, request: HttpRequest, peer: dict[str, Any] | None) -> User | None:
        """Return the user; None means 401. Health and version need no credentials."""
        user = _certified(peer) if peer else None
        if user is not None:
            return user
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return self.by_token(token.strip())
        path = request.path.rstrip("/")
        if path in OPEN_PATHS or path.startswith(("/livez/", "/readyz/")):
            return ANONYMOUS
        return None

    def by_token(self, token: str) -> User | None:
        accepted = self.accept(token)
        return accepted.user if accepted is not None else None

    def accept(self, token: str, audiences: Sequence[str] = AUDIENCES) -> Accepted | None:
        """Return the user of a token that is valid for at least one of the audiences, else None.

        Static tokens are valid for this server only.
        """
        for known, user in self._static.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                shared = tuple(name for name in AUDIENCES if name in audiences)
                return Accepted(user, shared) if shared else None
        if self._tokens is None or token.count(".") != 2:
            return None
        return self._tokens.check(token, audiences)


def _certified(peer: dict[str, Any]) -> User | None:
    """Return the user of a verified certificate: common name, and organizations as groups."""
    name = ""
    groups: list[str] = []
    for relative in peer.get("subject") or ():
        for kind, value in relative:
            if kind == "commonName":
                name = value
            elif kind == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None
