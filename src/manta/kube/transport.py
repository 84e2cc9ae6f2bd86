"""Bytes to an API server and bytes back: the one seam below the client.

The pure half (Request, Response, StreamResponse, Transport) imports nothing heavy, so that an
in-process server can implement it. HttpTransport is the only code of this room that knows
aiohttp, and loads it at the first request.

Promise: every failure leaves here as `errors.Unreachable`, and its `sent` is False only when
it is proven that the server cannot have seen the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """As it stands on the request line: percent-encoded, without the query."""
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = 30.0
    """Seconds for the whole exchange; for a stream, until its headers have come."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """Keys in lower case."""
    body: bytes
    note: str = ""
    """What the transport knows about a refusal and the server does not say."""


class StreamResponse(Protocol):
    """An answer whose body goes on: a watch, a log."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Keys in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Ends when the server ends it; a loss raises Unreachable."""
        ...


class Transport(Protocol):
    async def send(self, request: Request) -> Response:
        """Raises Unreachable when no complete answer came back."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]: ...

    async def close(self) -> None: ...
