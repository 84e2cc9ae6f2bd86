"""The connection of one client to the API server, on which requests and watches can go wrong.

Every fault is added by the world, at its time, and `clear` ends them all. What is not disturbed passes
unchanged, so that a story without faults is an ordinary run.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response, StreamResponse
from manta.kube.watch_stream import LineSplitter
from manta.localplane.apiserver.app import App
from manta.localplane.inprocess import InProcessTransport
from simulation.plane import ACTOR
from support.faults import is_watch, is_write, status

LEAST_LATENCY = 0.002
"""Seconds of every request: virtual time must pass even where clients answer each other."""
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "read"}
REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def plural_of(path: str) -> str:
    """`pods` for /api/v1/namespaces/default/pods/x; empty for paths that name no resource."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) >= 3 and rest[0] == "namespaces":
        return rest[2]
    return rest[0] if rest else ""


@dataclass(slots=True)
class RequestFault:
    """What happens to the next `times` requests that match."""

    verb: str
    """create, update, patch, delete, read, write, any; or watch, which the others leave alone."""
    plural: str
    """Empty: of any resource."""
    effect: str
    """`lose` (executed, the reply is lost), `slow`, or a status code (not executed)."""
    times: int
    seconds: float = 0.0

    def applies(self, request: Request) -> bool:
        if self.times <= 0 or is_watch(request) != (self.verb == "watch"):
            return False
        verb = VERBS.get(request.method, "")
        wanted = {"any": True, "watch": True, "write": is_write(request)}.get(
            self.verb, self.verb == verb
        )
        if not wanted or (self.plural and plural_of(request.path) != self.plural):
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class WatchFault:
    """What happens to the events of one resource."""

    delay: float = 0.0
    held_until: float = 0.0
    drop: bool = False
    """The next event gets lost, and all that follow it on this connection."""


@dataclass(slots=True)
class Sent:
    """A write that an operator sent, and what the server answered."""

    at: float
    method: str
    path: str
    body: bytes
    code: int


Kill = Callable[[], None]


class SimulatedTransport:
    def __init__(self, app: App, actor: str, latency: Callable[[], float]) -> None:
        self._inner = InProcessTransport(app)
        self.actor = actor
        self._latency = latency
        self.requests: list[RequestFault] = []
        self.watches: dict[str, WatchFault] = {}
        self.expiring: set[str] = set()
        """Resources whose next watch is refused with 410."""
        self.unreachable = False
        self.dead = False
        self.writes = 0
        """Accepted so far."""
        self.counted: Callable[[str, Request], None] = lambda _actor, _request: None
        self.sent: Callable[[Sent], None] = lambda _sent: None
        self.heard: Callable[[str, str], str] = lambda _plural, _line: ""
        """Called with every watch event; says `drop`, `delay`, or nothing."""
        self._kill_after: tuple[int, bool, Kill] | None = None
        self._thawed: asyncio.Event | None = None
        self._streams: list[_Stream] = []

    # ── the faults ───────────────────────────────────────────────────────────────────────

    def kill_at_write(self, count: int, *, before: bool, kill: Kill) -> None:
        """The process ends at its count-th write from now: before it is sent, or after the server accepted it
        and before the reply comes."""
        self._kill_after = (self.writes + count, before, kill)

    def freeze(self) -> None:
        self._thawed = self._thawed or asyncio.Event()

    def thaw(self) -> None:
        if self._thawed is not None:
            self._thawed.set()
            self._thawed = None
        self.wake()

    def watch_fault(self, plural: str) -> WatchFault:
        return self.watches.setdefault(plural, WatchFault())

    def cut_watches(self, plural: str = "", *, expire: bool = False) -> None:
        """Break the open watches; with `expire`, the version where they would resume is too old."""
        for stream in tuple(self._streams):
            if not plural or stream.plural == plural:
                if expire:
                    self.expiring.add(stream.plural)
                stream.broken = True
        self.wake()

    def wake(self) -> None:
        for stream in tuple(self._streams):
            stream.changed.set()

    def clear(self) -> None:
        self.requests.clear()
        self.watches.clear()
        self.unreachable = False
        self._kill_after = None
        self.thaw()

    # ── the transport ────────────────────────────────────────────────────────────────────

    async def send(self, request: Request) -> Response:
        self.counted(self.actor, request)
        await self._usable()
        await asyncio.sleep(LEAST_LATENCY + self._latency())
        await self._usable()
        for fault in self.requests:
            if fault.effect == "slow" and fault.applies(request):
                await self._dawdle(request, fault.seconds)
        for fault in self.requests:
            if fault.effect.isdigit() and fault.applies(request):
                return self._refused(request, int(fault.effect))
        if is_write(request):
            return await self._write(request)
        return await self._answer(request)

    async def _write(self, request: Request) -> Response:
        if self._kill_after and self._kill_after[1] and self.writes + 1 >= self._kill_after[0]:
            await self._die()
        response = await self._answer(request)
        self.sent(Sent(_time(), request.method, request.path, request.body or b"", response.status))
        if 200 <= response.status < 300:
            self.writes += 1
            if self._kill_after and self.writes >= self._kill_after[0]:
                await self._die()
        for fault in self.requests:
            if fault.effect == "lose" and fault.applies(request):
                raise Unreachable(f"reply to {request.method} {request.path} lost", sent=True)
        return response

    def _refused(self, request: Request, code: int) -> Response:
        if is_write(request):
            self.sent(Sent(_time(), request.method, request.path, request.body or b"", code))
        return _failure(code)

    async def _answer(self, request: Request) -> Response:
        token = ACTOR.set(self.actor)
        try:
            return await self._inner.send(request)
        finally:
            ACTOR.reset(token)

    async def _die(self) -> None:
        assert self._kill_after is not None
        _, _, kill = self._kill_after
        self._kill_after = None
        self.dead = True
        kill()
        await asyncio.Event().wait()  # nobody is left to receive the answer

    async def _usable(self) -> None:
        if self.dead:
            await asyncio.Event().wait()
        if self._thawed is not None:
            await self._thawed.wait()
        if self.unreachable:
            raise Unreachable("connection refused", sent=False)

    @staticmethod
    async def _dawdle(request: Request, seconds: float) -> None:
        if request.timeout is not None and request.timeout < seconds:
            await asyncio.sleep(request.timeout)
            raise Unreachable(f"{request.method} {request.path} timed out", sent=False)
        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        await self._usable()
        plural = plural_of(request.path)
        if plural in self.expiring and ("sendInitialEvents", "true") not in request.query:
            self.expiring.discard(plural)
            yield _Fixed(_failure(410))
            return
        for fault in self.requests:
            if fault.effect.isdigit() and fault.applies(request):
                yield _Fixed(_failure(int(fault.effect)))
                return
        async with self._inner.stream(request) as inner:
            stream = _Stream(self, inner, plural)
            self._streams.append(stream)
            try:
                yield stream
            finally:
                self._streams.remove(stream)
                await stream.close()

    async def close(self) -> None:
        await self._inner.close()

    @property
    def stalled(self) -> bool:
        return self.dead or self._thawed is not None


def _failure(code: int) -> Response:
    details = {"retryAfterSeconds": 1} if code == 429 else {}
    return status(code, REASONS[code], f"injected {code}", **details)


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


@dataclass(eq=False)
class _Stream:
    """A watch whose lines may come late, not at all, or suddenly no more."""

    transport: SimulatedTransport
    inner: StreamResponse
    plural: str
    broken: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _lines: deque[tuple[float, bytes | None]] = field(default_factory=deque)
    _pump: asyncio.Task[None] | None = None
    _lost: bool = False
    """An event got lost: the API promises that none comes after a gap, so that this connection is silent now."""

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        self._pump = asyncio.ensure_future(self._read())
        while True:
            self.changed.clear()
            if self.broken or self.transport.unreachable:
                raise Unreachable("connection lost", sent=True)
            wait = self._wait()
            if wait == 0:
                line = self._lines.popleft()[1]
                if line is None:
                    return
                yield line
            elif wait is None:
                await self.changed.wait()
            else:
                timer = asyncio.get_running_loop().call_later(wait, self.changed.set)
                await self.changed.wait()
                timer.cancel()

    def _wait(self) -> float | None:
        """Seconds until the next line; None: until something changes."""
        if not self._lines or self.transport.stalled:
            return None
        fault = self.transport.watches.get(self.plural)
        due = max(self._lines[0][0], fault.held_until if fault else 0.0)
        return max(due - _time(), 0.0)

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def _read(self) -> None:
        splitter = LineSplitter()
        async for chunk in self.inner.chunks():
            for line in splitter.feed(chunk):
                self._take(line)
        self._lines.append((_time(), None))
        self.changed.set()

    def _take(self, line: bytes) -> None:
        word = self.transport.heard(self.plural, line.decode()) if self._live(line) else ""
        fault = self.transport.watches.get(self.plural)
        dropped = word == "drop" or (fault is not None and fault.drop and self._live(line))
        self._lost = self._lost or dropped
        if self._lost:
            return
        delay = (fault.delay if fault else 0.0) + (float(word) if word else 0.0)
        last = self._lines[-1][0] if self._lines else 0.0
        self._lines.append((max(_time() + delay, last), line + b"\n"))
        self.changed.set()

    def _live(self, line: bytes) -> bool:
        """Whether this is an event after the initial list."""
        return b'"type":"BOOKMARK"' not in line[:40]


def _time() -> float:
    return asyncio.get_running_loop().time()


def object_of(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found
