"""One request, some attempts: the brake, the measuring and the repeats around a transport."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol, Self

import msgspec

from manta.kube.errors import ApiError, TooManyRequests, Unreachable, error_from
from manta.kube.ratelimit import RateLimiter
from manta.kube.retry import RetryPolicy, Tries, delay_before_next
from manta.kube.transport import Request, Response, StreamResponse, Transport


class RequestObserver(Protocol):
    """Told of every attempt. `code` 0 means that no answer came."""

    def __call__(self, verb: str, resource: str, code: int, seconds: float) -> None: ...


def unobserved(verb: str, resource: str, code: int, seconds: float) -> None:
    """For clients that nobody measures."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """A request with the names under which it is measured."""

    verb: str
    resource: str
    request: Request
    timeout: float | None = None
    """None: what the client has for all."""


@dataclass(frozen=True, slots=True)
class Caller:
    transport: Transport
    headers: Mapping[str, str]
    """Sent with every request that does not say otherwise."""
    timeout: float
    """For calls that name none."""
    limiter: RateLimiter | None
    observer: RequestObserver
    retry: RetryPolicy
    chance: random.Random
    sleep: Callable[[float], Awaitable[None]]

    async def ask(self, call: Call) -> Response:
        """The good answer, after as many attempts as the policy allows; or the last error."""
        call, tries = self._completed(call), _Counter()
        while True:
            try:
                return _accepted(await self._attempt(call))
            except (ApiError, Unreachable) as error:
                await self._pause_after(tries.next(), call, error)

    async def ask_once(self, call: Call) -> Response:
        """Whatever answer comes to a single attempt. A 429 may be of whoever is behind a proxy of the
        server, and slows down nothing else."""
        return await self._attempt(self._completed(call))

    @asynccontextmanager
    async def opened(self, call: Call) -> AsyncIterator[StreamResponse]:
        """A stream whose start was repeated like any read. Once open, it is never repeated."""
        async with AsyncExitStack() as stack:
            yield await self._open(self._completed(call), stack)

    def _completed(self, call: Call) -> Call:
        asked = call.request
        headers = {**self.headers, **asked.headers} if asked.headers else self.headers
        timeout = call.timeout or self.timeout
        whole = msgspec.structs.replace(asked, headers=headers, timeout=timeout)
        return Call(call.verb, call.resource, whole, timeout)

    async def _attempt(self, call: Call) -> Response:
        if self.limiter:
            await self.limiter.acquire()
        with _Measure(self.observer, call) as measured:
            response = await self.transport.send(call.request)
            measured.code = response.status
        return response

    async def _open(self, call: Call, stack: AsyncExitStack) -> StreamResponse:
        tries = _Counter()
        while True:
            try:
                return await self._open_once(call, stack)
            except (ApiError, Unreachable) as error:
                await stack.aclose()
                await self._pause_after(tries.next(), call, error)

    async def _open_once(self, call: Call, stack: AsyncExitStack) -> StreamResponse:
        if self.limiter:
            await self.limiter.acquire()
        with _Measure(self.observer, call) as measured:
            stream = await stack.enter_async_context(self.transport.stream(call.request))
            measured.code = stream.status
        if stream.status >= 300:
            body = await _whole(stream, call.request.timeout)
            note = getattr(stream, "note", "")  # few transports know more than the server says
            raise error_from(stream.status, stream.headers, body, note)
        return stream

    async def _pause_after(self, so_far: Tries, call: Call, error: ApiError | Unreachable) -> None:
        """Sleep until the next attempt, or raise `error` when there shall be none."""
        if self.limiter and isinstance(error, TooManyRequests) and error.of_load:
            self.limiter.refused()
        method = call.request.method
        delay = delay_before_next(self.retry, so_far, method, error, self.chance.random())
        if delay is None:
            raise error
        await self.sleep(delay)


class _Counter:
    """Counts the attempts at one call, and the time since the first."""

    __slots__ = ("_attempts", "_started")

    def __init__(self) -> None:
        self._attempts = 0
        self._started = asyncio.get_running_loop().time()

    def next(self) -> Tries:
        self._attempts += 1
        return Tries(self._attempts, asyncio.get_running_loop().time() - self._started)


class _Measure:
    """Tells the observer what one attempt came to, also when it was cancelled."""

    __slots__ = ("_call", "_observe", "_started", "code")

    def __init__(self, observe: RequestObserver, call: Call) -> None:
        self._observe = observe
        self._call = call
        self._started = 0.0
        self.code = 0

    def __enter__(self) -> Self:
        self._started = asyncio.get_running_loop().time()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = asyncio.get_running_loop().time() - self._started
        self._observe(self._call.verb, self._call.resource, self.code, seconds)


async def _whole(stream: StreamResponse, limit: float | None) -> bytes:
    """The body of a refusal. A server that refuses and then keeps talking is not waited for."""
    body = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(limit):
            async for chunk in stream.chunks():
                body += chunk
    return body


def _accepted(response: Response) -> Response:
    if response.status >= 300:
        raise error_from(response.status, response.headers, response.body, response.note)
    return response
