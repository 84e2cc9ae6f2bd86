"""A transport that misbehaves on order, around any other transport.

    faults = FaultTransport(InProcessTransport(app))
    faults.fail_after(writes(RAY_JOBS), times=1)      # applied, but the reply is lost
    faults.delay_watch(PODS, seconds=5)
    faults.kill_after_writes(3, on_kill=task.cancel)  # as SIGKILL right after the third write

Every exchange is kept in `log`, with the loop's time: the oracle for counting.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from manta.api.resources import Resource
from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response, StreamResponse, Transport
from manta.kube.watch_stream import LineSplitter

Match = Callable[[Request], bool]
READS = frozenset({"GET", "HEAD"})


def is_watch(request: Request) -> bool:
    return ("watch", "true") in request.query or ("watch", "1") in request.query


def is_write(request: Request) -> bool:
    return request.method not in READS


def everything(request: Request) -> bool:
    return True


def touches(resource: Resource, *methods: str) -> Match:
    """Requests of any of these methods (of all, if none is given) to this resource."""
    root = resource.path().rsplit("/", 1)[0] + "/"

    def match(request: Request) -> bool:
        named = request.path.startswith(root) and f"/{resource.plural}" in request.path
        return named and (not methods or request.method in methods)

    return match


def writes(resource: Resource) -> Match:
    return lambda request: is_write(request) and touches(resource)(request)


def watches(resource: Resource) -> Match:
    return lambda request: is_watch(request) and touches(resource)(request)


def status(code: int, reason: str, message: str = "injected", **details: Any) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        "details": details,
    }
    return Response(code, {"content-type": "application/json"}, json.dumps(body).encode())


@dataclass(slots=True)
class Exchange:
    at: float
    method: str
    path: str
    watch: bool
    code: int
    """0: no answer was given."""
    body: bytes | None = None

    @property
    def accepted_write(self) -> bool:
        return self.method not in READS and 200 <= self.code < 300


@dataclass(slots=True)
class _Rule:
    match: Match
    effect: Callable[[Request], Any]
    left: int | None
    after: bool = False
    """The request is carried out, and only then goes wrong."""

    def applies(self, request: Request) -> bool:
        if self.left == 0 or not self.match(request):
            return False
        if self.left is not None:
            self.left -= 1
        return True


class FaultTransport:
    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._rules: list[_Rule] = []
        self._slow: list[_Rule] = []
        self._delays: list[tuple[Match, float]] = []
        self._drops: list[tuple[Match, Callable[[Mapping[str, Any]], bool], list[int]]] = []
        self._breaks: list[asyncio.Event] = []
        self._kill: tuple[int, Callable[[], object]] | None = None
        self.accepted = 0
        self.dead = False
        self.down = False
        self.log: list[Exchange] = []

    # ── the faults ───────────────────────────────────────────────────────────────────────

    def answer(self, match: Match, response: Response, *, times: int | None = 1) -> None:
        """Answer without asking the server."""
        self.answer_by(match, lambda _request: response, times=times)

    def answer_by(
        self, match: Match, answer: Callable[[Request], Response], *, times: int | None = None
    ) -> None:
        """Answer each request by a function of it, without asking the server."""
        self._rules.append(_Rule(match, answer, times))

    def fail_before(self, match: Match, *, times: int | None = 1, code: int = 503) -> None:
        """A 5xx; the server never saw the request."""
        self.answer(match, status(code, "ServiceUnavailable"), times=times)

    def fail_after(self, match: Match, *, times: int | None = 1) -> None:
        """The server did it; the reply is lost."""

        def lose(request: Request) -> None:
            raise Unreachable(f"reply to {request.method} {request.path} lost", sent=True)

        self._rules.append(_Rule(match, lose, times, after=True))

    def break_with(self, match: Match, error: Exception, *, times: int | None = 1) -> None:
        """Raise this instead of sending anything."""

        def raise_it(_request: Request) -> None:
            raise error

        self._rules.append(_Rule(match, raise_it, times))

    def conflict(self, match: Match, *, times: int | None = 1) -> None:
        self.answer(match, status(409, "Conflict", "the object has been modified"), times=times)

    def throttle(self, match: Match, *, times: int | None = 1, retry_after: int = 1) -> None:
        busy = status(429, "TooManyRequests", retryAfterSeconds=retry_after)
        self.answer(match, busy, times=times)

    def deny(self, match: Match, *, times: int | None = 1) -> None:
        self.answer(match, status(403, "Forbidden", "denied by injection"), times=times)

    def expire(self, match: Match, *, times: int | None = 1) -> None:
        """410 as the answer to a list, or to the opening of a watch."""
        self.answer(match, status(410, "Expired", "too old resource version"), times=times)

    def slow(self, match: Match, seconds: float, *, times: int | None = None) -> None:
        """Answer only after so long; the caller may give up before."""
        self._slow.append(_Rule(match, lambda _request: seconds, times))

    def delay_watch(self, resource: Resource, seconds: float) -> None:
        """Hold every event of later watches back for so long."""
        self._delays.append((watches(resource), seconds))

    def drop_event(
        self,
        resource: Resource,
        match: Callable[[Mapping[str, Any]], bool] = lambda _event: True,
        times: int = 1,
    ) -> None:
        """Swallow events of later watches; what follows them still comes."""
        self._drops.append((watches(resource), match, [times]))

    def break_watches(self) -> None:
        """Cut every watch that is open now, as a lost connection does."""
        for broken in self._breaks:
            broken.set()

    def go_down(self) -> None:
        """The server is gone: connections are refused and open watches cut."""
        self.down = True
        self.break_watches()

    def come_back(self) -> None:
        self.down = False

    def kill_after_writes(self, count: int, on_kill: Callable[[], object]) -> None:
        """Right after the server accepted this many writes, the process is no more."""
        self._kill = (count, on_kill)

    # ── the transport ────────────────────────────────────────────────────────────────────

    async def send(self, request: Request) -> Response:
        await self._alive(request)
        for rule in self._slow:
            if rule.applies(request):
                await self._dawdle(request, rule.effect(request))
        for rule in self._rules:
            if not rule.after and rule.applies(request):
                response: Response = rule.effect(request)
                self._note(request, response.status)
                return response
        response = await self._inner.send(request)
        self._note(request, response.status)
        await self._count(request, response)
        for rule in self._rules:
            if rule.after and rule.applies(request):
                rule.effect(request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        await self._alive(request)
        for rule in self._rules:
            if not rule.after and rule.applies(request):
                response: Response = rule.effect(request)
                self._note(request, response.status)
                yield _Fixed(response)
                return
        broken = asyncio.Event()
        self._breaks.append(broken)
        try:
            async with self._inner.stream(request) as inner:
                self._note(request, inner.status)
                bent = _Bent(inner, self, request, broken)
                try:
                    yield bent
                finally:
                    await bent.close()
        finally:
            self._breaks.remove(broken)

    async def close(self) -> None:
        await self._inner.close()

    async def _dawdle(self, request: Request, seconds: float) -> None:
        patience = request.timeout
        if patience is not None and patience < seconds:
            await asyncio.sleep(patience)
            raise Unreachable(f"{request.method} {request.path} timed out", sent=True)
        await asyncio.sleep(seconds)

    async def _alive(self, request: Request) -> None:
        if self.dead:
            await asyncio.Event().wait()
        if self.down:
            self._note(request, 0)
            raise Unreachable("connection refused", sent=False)

    async def _count(self, request: Request, response: Response) -> None:
        if not is_write(request) or not 200 <= response.status < 300:
            return
        self.accepted += 1
        if self._kill and self.accepted >= self._kill[0]:
            self.dead = True
            self._kill[1]()
            await asyncio.Event().wait()  # nobody is left to receive the answer

    def _note(self, request: Request, code: int) -> None:
        now = asyncio.get_running_loop().time()
        self.log.append(
            Exchange(now, request.method, request.path, is_watch(request), code, request.body)
        )

    def accepted_writes(self, match: str = "") -> list[Exchange]:
        return [one for one in self.log if one.accepted_write and match in one.path]

    def dropped(self, request: Request, line: bytes) -> bool:
        for match, wanted, left in self._drops:
            if left[0] and match(request) and wanted(json.loads(line)):
                left[0] -= 1
                return True
        return False

    def delay_of(self, request: Request) -> float:
        return max((seconds for match, seconds in self._delays if match(request)), default=0.0)


@dataclass(slots=True)
class _Fixed:
    response: Response

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.response.body


@dataclass(slots=True)
class _Bent:
    """A stream whose lines may come late, not at all, or suddenly no more."""

    inner: StreamResponse
    faults: FaultTransport
    request: Request
    broken: asyncio.Event
    _lines: deque[tuple[float, bytes | None]] = field(default_factory=deque)
    _tasks: list[asyncio.Future[Any]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        arrived = asyncio.Event()
        cut = asyncio.ensure_future(self.broken.wait())
        self._tasks += [asyncio.ensure_future(self._pump(arrived)), cut]
        loop = asyncio.get_running_loop()
        while True:
            if self.broken.is_set():
                raise Unreachable("connection lost", sent=True)
            if not self._lines:
                arrived.clear()
                waiter = asyncio.ensure_future(arrived.wait())
                self._tasks.append(waiter)
                await asyncio.wait([waiter, cut], return_when=asyncio.FIRST_COMPLETED)
                self._tasks.remove(waiter)
                waiter.cancel()
                continue
            due, line = self._lines[0]
            if due > loop.time():
                await asyncio.wait([cut], timeout=due - loop.time())
                continue
            self._lines.popleft()
            if line is None:
                return
            yield line

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(self, arrived: asyncio.Event) -> None:
        splitter = LineSplitter()
        loop = asyncio.get_running_loop()
        async for chunk in self.inner.chunks():
            for line in splitter.feed(chunk):
                if not self.faults.dropped(self.request, line):
                    delay = self.faults.delay_of(self.request)
                    self._lines.append((loop.time() + delay, line + b"\n"))
                    arrived.set()
        self._lines.append((loop.time(), None))
        arrived.set()
