"""Sends one request to Kubernetes, once, and hands the answer on as it arrives."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from manta.console.api.headers import RESPONSE_HEADERS, to_caller
from manta.console.api.statuses import refusal
from manta.httpserver.messages import HttpResponse
from manta.kube.errors import Unreachable
from manta.kube.transport import Request, StreamResponse, Transport

_BODILESS: Final = frozenset((204, 304))
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
Release = Callable[[], None]


class ForwardedBody:
    """The body of an answer. A class, not a generator: its `aclose` also works before the first read."""

    def __init__(
        self,
        opened: AbstractAsyncContextManager[StreamResponse],
        stream: StreamResponse,
        release: Release,
    ) -> None:
        self._opened = opened
        self._chunks = stream.chunks()
        self._release = release
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except Unreachable as error:
            # The server aborts the connection then: an end would look like a whole answer.
            raise ConnectionResetError(str(error)) from error

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
            await self._opened.__aexit__(None, None, None)
        finally:
            self._release()


async def forwarded(
    transport: Transport, request: Request, release: Release, inside: str = ""
) -> HttpResponse:
    """The answer of Kubernetes; `release` is called once, when it is over or cannot come.

    Redirects are not followed; `inside` is where one may lead to.
    """
    with contextlib.ExitStack() as undo:
        undo.callback(release)
        opened = transport.stream(request)
        try:
            stream = await opened.__aenter__()
        except Unreachable as error:
            return unreachable(request, error)
        body = ForwardedBody(opened, stream, release)
        undo.pop_all()
    kind, headers = stream.headers.get("content-type", ""), to_caller(stream.headers, inside)
    if stream.status in _BODILESS or stream.status < 200:
        await body.aclose()
        return HttpResponse(stream.status, b"", headers, kind)
    if stream.status in _REDIRECTS and "location" not in dict(headers):
        await body.aclose()
        return refusal(
            502, f"{stream.status}: a redirect to another place is not passed on", RESPONSE_HEADERS
        )
    return HttpResponse(stream.status, body, headers, kind)


def unreachable(request: Request, error: Unreachable) -> HttpResponse:
    """503 if Kubernetes cannot have received it; else 504, and a write may have happened."""
    if not error.sent:
        return refusal(503, str(error), RESPONSE_HEADERS)
    unknown = request.method not in ("GET", "HEAD", "OPTIONS")
    more = "; it may have been carried out: read before you repeat it" if unknown else ""
    return refusal(504, f"{error}{more}", RESPONSE_HEADERS)
