"""Print each `Warning` header of the API server once, as kubectl does."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from manta.kube.transport import PassingTransport, Request, Response, StreamResponse, WebSocket
from manta.kube.upgraded import Upgraded

_WARNING = re.compile(r'299 \S+ "((?:\\.|[^"\\])*)"')
"""Code, agent, quoted text; a date may follow. Only code 299 is shown."""


class WarningPrinter:
    """A transport that prints the warnings of each response to standard error."""

    def __init__(self, inner: PassingTransport) -> None:
        self._inner = inner
        self._printed: set[str] = set()

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        for text in warnings_of(response.headers.get("warning", "")):
            if text not in self._printed:
                self._printed.add(text)
                print(f"Warning: {text}", file=sys.stderr)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        return self._inner.websocket(request, protocols)

    def upgraded(self, request: Request) -> AbstractAsyncContextManager[Upgraded]:
        return self._inner.upgraded(request)

    async def close(self) -> None:
        await self._inner.close()


def warnings_of(header: str) -> list[str]:
    """The texts of a `Warning` header, which may hold several."""
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]
