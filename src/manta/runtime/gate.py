"""May we write? The answer is set by leader election, and asked before every single write.

The gate stands below the client, so that no writer can forget it: `GatedTransport` refuses what
would change something while the gate is closed, and gives no write more time than the lease has
left. A round belongs to the term of leadership in which it began: if the lease was lost and won
again meanwhile, another leader may have acted, and what the round still wants to write is void.
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
    """We are not the leader (any more): nothing was sent."""


class WriteGate:
    """Open until a moment on the monotonic clock; closed at first. May be set from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = -math.inf
        self._current = 0

    def open(self, until: float = math.inf) -> None:
        """Writes may start before this moment. Without one: for good (no election)."""
        if self.remaining <= 0:
            self._current += 1  # another may have led since: a new term
        self._until = until

    def close(self) -> None:
        self._until = -math.inf

    def enter_term(self) -> None:
        """What the current task and its children write belongs to the present term."""
        _term.set(self._current)

    @property
    def remaining(self) -> float:
        """Seconds for which the gate is still open; zero when it is closed."""
        return max(self._until - self._clock.monotonic(), 0.0)

    def check(self) -> None:
        if self.remaining <= 0:
            raise WritesStopped("this process does not hold the leader lease: not writing")
        mine = _term.get()
        if mine is not None and mine != self._current:
            raise WritesStopped("the leader lease was lost since this round began: not writing")


class GatedTransport:
    """A transport on which reads always pass, and writes only while the gate is open."""

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
