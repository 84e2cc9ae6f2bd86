"""Requests and responses, independent of sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from manta.httpserver.budget import Reservation, unlimited

Headers = tuple[tuple[str, str], ...]


class HttpError(Exception):
    """A request that the server refuses by itself, before the handler sees it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class User:
    """The sender of a request, as the handler authenticated it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
    raw_path: str = ""
    """As on the request line, without the query; empty for a request of this process."""
    reservation: Reservation = field(default=_IN_PROCESS, compare=False, repr=False)
    """The client's memory budget: a handler acquires from it before it builds a large response."""

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
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
    """One response. A body that is an iterator is sent chunk by chunk."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: Headers = ()
    content_type: str = "application/json"


_encode = msgspec.json.Encoder().encode


def json_response(status: int, body: Any, headers: Headers = ()) -> HttpResponse:
    return HttpResponse(status, _encode(body) + b"\n", headers)


def text_response(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, text.encode(), content_type="text/plain; charset=utf-8")
