"""A transport without a network: scripted answers in, recorded requests out.

It stands in for bytes on a wire, never for the behaviour of an API server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response

LOST_BEFORE = Unreachable("connection refused", sent=False)
LOST_AFTER = Unreachable("connection reset", sent=True)


def answer(status: int = 200, body: object = None, **headers: str) -> Response:
    """Keywords are headers: `retry_after="3"`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body if body is not None else {})
    return Response(status, named, raw)


def refusal(code: int, reason: str, message: str = "no", **details: object) -> Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return answer(code, status | ({"details": details} if details else {}))


@dataclass
class ScriptedStream:
    parts: Sequence[bytes | Exception]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    closed: bool = False

    async def chunks(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part


Scripted = Response | Exception | ScriptedStream


class ScriptedTransport:
    """Gives the answers in order. A request beyond the script is an error of the test."""

    def __init__(self, *script: Scripted) -> None:
        self._script = list(script)
        self.requests: list[Request] = []
        self.closed = False

    async def send(self, request: Request) -> Response:
        given = self._next(request)
        assert isinstance(given, Response)
        return given

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ScriptedStream]:
        given = self._next(request)
        if isinstance(given, Response):
            given = ScriptedStream([given.body], given.status, dict(given.headers))
        try:
            yield given
        finally:
            given.closed = True

    async def close(self) -> None:
        self.closed = True

    def _next(self, request: Request) -> Response | ScriptedStream:
        self.requests.append(request)
        assert self._script, f"unexpected request {request}"
        given = self._script.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    @property
    def exhausted(self) -> bool:
        return not self._script
