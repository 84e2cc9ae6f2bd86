"""Who asks: client certificates, static tokens, service account tokens. No one else."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from manta.localplane.apiserver.auth.tokens import AUDIENCES, Accepted, Tokens
from manta.localplane.apiserver.messages import ANONYMOUS, HttpRequest, User

AUTHENTICATED = "system:authenticated"
OPEN_PATHS = frozenset(("/healthz", "/livez", "/readyz", "/version"))


class Authenticator:
    def __init__(self, static: Mapping[str, User], tokens: Tokens | None) -> None:
        self._static = dict(static)
        self._tokens = tokens

    def authenticate(self, request: HttpRequest, peer: dict[str, Any] | None) -> User | None:
        """None means 401. Health and version are open to everyone."""
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
        """The user of a token that is good for at least one of the audiences.

        Static tokens are made for this server and for nobody else.
        """
        for known, user in self._static.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                shared = tuple(name for name in AUDIENCES if name in audiences)
                return Accepted(user, shared) if shared else None
        if self._tokens is None or token.count(".") != 2:
            return None
        return self._tokens.check(token, audiences)


def _certified(peer: dict[str, Any]) -> User | None:
    """The user in a verified certificate: common name, and organizations as groups."""
    name = ""
    groups: list[str] = []
    for relative in peer.get("subject") or ():
        for kind, value in relative:
            if kind == "commonName":
                name = value
            elif kind == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None
