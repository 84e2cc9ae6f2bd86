"""May we write? The answer is set by leader election, and asked before every single write.

The gate stands below the client, so that no writer can forget it: `GatedTransport` refuses what
would change something while the gate is closed, and gives no write more time than the lease has
left. Its state is one number, so that the election's thread may set it at any moment.
"""

from __future__ import annotations

import math
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from manta.kube.errors import MantaError
from manta.kube.transport import Request, Response, StreamResponse, Transport
from manta.runtime.clock import Clock

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class WritesStopped(MantaError):  # noqa: N818  named by what is so
    """We are not the leader (any more): nothing was sent."""


class WriteGate:
    """Open until a moment on the monotonic clock. Closed at first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = -math.inf

    def open(self, until: float = math.inf) -> None:
        """Writes may start before this moment. Without one: for good (no election)."""
        self._until = until

    def close(self) -> None:
        self._until = -math.inf

    @property
    def remaining(self) -> float:
        """Seconds for which the gate is still open; zero when it is closed."""
        return max(self._until - self._clock.monotonic(), 0.0)

    def check(self) -> None:
        if self.remaining <= 0:
            raise WritesStopped("this process does not hold the leader lease: not writing")


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
