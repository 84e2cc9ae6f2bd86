"""A transport of the client that calls an API server in the same process, without sockets.

It only uses asyncio and the time of the event loop, so that both run on virtual time in tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from urllib.parse import unquote

from manta.httpserver.messages import HttpRequest, HttpResponse, User
from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response, StreamResponse
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth.authenticator import ADMIN


class InProcessTransport:
    """Sends requests to an App as one user."""

    def __init__(self, app: App, user: User = ADMIN) -> None:
        self._app = app
        self._user = user

    async def send(self, request: Request) -> Response:
        """Pass the request to the server in this process. Raises Unreachable."""
        try:
            async with asyncio.timeout(request.timeout):
                answer = await self._app.handle(self._incoming(request))
                body = await _whole(answer)
        except TimeoutError:
            raise Unreachable("the in-process server did not answer in time", sent=True) from None
        except ConnectionError as error:
            raise Unreachable(f"the answer was cut short: {error}", sent=True) from error
        # Let other tasks run, as a real network would; otherwise callers starve them.
        await asyncio.sleep(0)
        return Response(answer.status, _headers(answer), body)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._opened(request)

    @asynccontextmanager
    async def _opened(self, request: Request) -> AsyncIterator[StreamResponse]:
        answer = await self._app.handle(self._incoming(request))
        stream = _Stream(answer)
        try:
            yield stream
        finally:
            await stream.close()

    async def close(self) -> None:
        """Nothing is held open."""

    def _incoming(self, request: Request) -> HttpRequest:
        return HttpRequest(
            request.method,
            unquote(request.path),
            request.query,
            {name.lower(): value for name, value in request.headers.items()},
            request.body or b"",
            self._user,
        )


class _Stream:
    def __init__(self, answer: HttpResponse) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return _headers(self._answer)

    async def chunks(self) -> AsyncIterator[bytes]:
        body = self._answer.body
        if isinstance(body, bytes):
            yield body
            return
        async for chunk in body:
            yield chunk

    async def close(self) -> None:
        closing = getattr(self._answer.body, "aclose", None)
        if closing is not None:
            await closing()


async def _whole(answer: HttpResponse) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    return b"".join([chunk async for chunk in answer.body])


def _headers(answer: HttpResponse) -> Mapping[str, str]:
    headers = {"content-type": answer.content_type}
    for name, value in answer.headers:
        lowered = name.lower()
        headers[lowered] = f"{headers[lowered]}, {value}" if lowered in headers else value
    return headers
