"""What goes into the server and what comes out, without any socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from manta.localplane.apiserver.budget import Hold, unlimited


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Made by an authenticator, or given by code inside this process."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ADMIN = User("admin", ("system:masters", "system:authenticated"), uid="admin")
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


_IN_PROCESS = unlimited()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. `path` is percent-decoded; header names are lower case."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User = ANONYMOUS
    hold: Hold = field(default=_IN_PROCESS, compare=False, repr=False)
    """Whoever makes a large answer waits here first until the client may be kept one."""

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter, as the real server reads it."""
        for key, value in self.query:
            if key == name:
                return value
        return default

    def params(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]

    def flag(self, name: str) -> bool:
        return self.param(name).lower() in ("true", "1", "t")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer. A body that is an iterator is sent as it comes, in chunks."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


_encode = msgspec.json.Encoder().encode


def json_response(
    status: int, body: Any, headers: tuple[tuple[str, str], ...] = ()
) -> HttpResponse:
    return HttpResponse(status, _encode(body) + b"\n", headers)


def text_response(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, text.encode(), content_type="text/plain; charset=utf-8")
