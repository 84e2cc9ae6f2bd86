"""Refuses writes while this process does not hold the leader lease.

The gate is below the client, so that no writer can bypass it: `GatedTransport` refuses writes while the gate
is closed, and gives no write more time than the lease has left. A reconcile belongs to the term of leadership
in which it began: if the lease was lost and won again, another leader may have acted, so its writes are
refused.
"""

from __future__ import annotations

import math
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar

from msgspec.structs import replace

from manta.kube.errors import MantaError
from manta.kube.transport import Request, Response, StreamResponse, Transport
from manta.runtime.clock import Clock

_READS = frozenset({"GET", "HEAD", "OPTIONS"})

_term: ContextVar[int | None] = ContextVar("term", default=None)


class WritesStopped(MantaError):  # noqa: N818  named by what is so
    """This process does not lead: nothing was sent."""


class WriteGate:
    """Open until a monotonic time; initially closed. Can be set from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = -math.inf
        self._current = 0

    def open(self, until: float = math.inf) -> None:
        """Allow writes until this time; for ever by default (no election)."""
        if self.remaining <= 0:
            self._current += 1  # another process may have led: a new term
        self._until = until

    def close(self) -> None:
        self._until = -math.inf

    def enter_term(self) -> None:
        """Writes of the current task and its children belong to the present term."""
        _term.set(self._current)

    @property
    def remaining(self) -> float:
        """Seconds until the gate closes; zero if it is closed."""
        return max(self._until - self._clock.monotonic(), 0.0)

    def check(self) -> None:
        """Raises WritesStopped if the gate is closed, or the term has changed."""
        if self.remaining <= 0:
            raise WritesStopped("this process does not hold the leader lease: not writing")
        mine = _term.get()
        if mine is not None and mine != self._current:
            raise WritesStopped("the leader lease was lost since this reconcile began: not writing")


class GatedTransport:
    """A transport that passes reads always, and writes only while the gate is open."""

    def __init__(self, inner: Transport, gate: WriteGate) -> None:
        self._inner = inner
        self._gate = gate

    async def send(self, request: Request) -> Response:
        if request.method in _READS:
            return await self._inner.send(request)
        self._gate.check()
        timeout = min(request.timeout or math.inf, self._gate.remaining)
        bounded = request if math.isinf(timeout) else replace(request, timeout=timeout)
        return await self._inner.send(bounded)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()
