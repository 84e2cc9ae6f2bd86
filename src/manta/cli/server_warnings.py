"""`Warning` headers of the API server, printed once each as kubectl does."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from manta.kube.transport import (
    Request,
    Response,
    StreamResponse,
    UpgradingTransport,
    WebSocket,
)

_WARNING = re.compile(r'299 \S+ "((?:\\.|[^"\\])*)"')
"""Code, agent, quoted text; a date may follow. Only 299 is for people."""


class WarningPrinter:
    """A transport that shows the warnings of each answer on standard error."""

    def __init__(self, inner: UpgradingTransport) -> None:
        self._inner = inner
        self._said: set[str] = set()

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        for text in warnings_of(response.headers.get("warning", "")):
            if text not in self._said:
                self._said.add(text)
                print(f"Warning: {text}", file=sys.stderr)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        return self._inner.websocket(request, protocols)

    async def close(self) -> None:
        await self._inner.close()


def warnings_of(header: str) -> list[str]:
    """The texts of a `Warning` header, in which lines may have been joined."""
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]
