"""Who calls: a bearer token of the request, else the console's cookie. Kubernetes decides what either may do."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from manta.console.api.statuses import RefusedError
from manta.console.sessions import Session, is_same_origin
from manta.console.visitors import Visitors
from manta.httpserver.messages import HttpRequest, User
from manta.kube.transport import Transport
from manta.runtime.clock import Clock

MAX_OPEN: Final = 128
"""Requests of one caller at a time, watches included."""
_ACCEPTED_SECONDS: Final = 300.0
_MAX_ACCEPTED: Final = 1024
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_READS: Final = frozenset(("GET", "HEAD"))


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    """A hash: it tells callers apart, and no token stays in memory for it."""
    transport: Transport
    headers: Mapping[str, str]
    """Headers that authenticate the caller, if the transport does not."""
    by_token: bool
    release: Callable[[], None]
    """To be called when the request is over."""


class Callers:
    def __init__(self, direct: Transport, visitors: Visitors, clock: Clock) -> None:
        """`direct`: to Kubernetes without any credentials."""
        self._direct = direct
        self._visitors = visitors
        self._clock = clock
        self._open: Counter[str] = Counter()
        self._accepted: OrderedDict[str, float] = OrderedDict()

    def open_requests(self) -> int:
        return self._open.total()

    async def close(self) -> None:
        await self._direct.close()

    async def of(self, request: HttpRequest, session: Session | None) -> Caller:
        """Raises RefusedError; UsageError and the client's errors for a session that cannot start."""
        if request.headers.get("authorization"):
            token = _bearer(request)
            name = _hash(token.encode())
            headers = {"authorization": f"Bearer {token}"}
            return Caller(name, self._direct, headers, True, self._enter(name))
        if session is None:
            raise RefusedError(401, "Unauthorized: send a token of Kubernetes as bearer token")
        if request.method not in _READS and not is_same_origin(request.headers):
            raise RefusedError(403, "with a cookie, only pages of this console may change anything")
        visitor = await self._visitors.of(session)
        name = session.identity()
        leave = self._enter(name)
        visitor.streams += 1

        def release() -> None:
            visitor.streams -= 1
            visitor.visit()
            leave()

        return Caller(name, visitor.client.transport, {}, False, release)

    def accepted(self, caller: Caller) -> None:
        """Remember that Kubernetes knows this caller."""
        self._accepted[caller.name] = self._clock.monotonic()
        self._accepted.move_to_end(caller.name)
        while len(self._accepted) > _MAX_ACCEPTED:
            self._accepted.popitem(last=False)

    def known(self, request: HttpRequest) -> User | None:
        """A caller whose token Kubernetes has just accepted: its connections may wait longer."""
        try:
            name = _hash(_bearer(request).encode())
        except RefusedError:
            return None
        since = self._accepted.get(name, float("-inf"))
        fresh = self._clock.monotonic() - since < _ACCEPTED_SECONDS
        return User(f"caller {name}") if fresh else None

    def _enter(self, name: str) -> Callable[[], None]:
        if self._open[name] >= MAX_OPEN:
            raise RefusedError(429, f"{MAX_OPEN} requests of this caller are open; close some")
        self._open[name] += 1

        def leave() -> None:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

        return leave


def _bearer(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token):
        raise RefusedError(401, "Unauthorized: the header Authorization must be `Bearer TOKEN`")
    return token


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:32]
