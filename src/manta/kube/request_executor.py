"""Sends requests over a transport, with rate limit, metrics and retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol, Self

import msgspec

from manta.kube.errors import ApiError, TooManyRequests, Unreachable, error_from
from manta.kube.rate_limiter import RateLimiter
from manta.kube.retry import RetryPolicy, RetryState, delay_before_next
from manta.kube.transport import Request, Response, StreamResponse, Transport


class RequestObserver(Protocol):
    """Called after every attempt. `code` is 0 when no response came."""

    def __call__(self, verb: str, resource: str, code: int, seconds: float) -> None: ...


def unobserved(verb: str, resource: str, code: int, seconds: float) -> None:
    """The default observer: does nothing."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """A request, with its verb and resource for metrics."""

    verb: str
    resource: str
    request: Request
    timeout: float | None = None
    """None: the client's default."""


@dataclass(frozen=True, slots=True)
class RequestExecutor:
    transport: Transport
    headers: Mapping[str, str]
    """Sent with every request; headers of the request itself win."""
    timeout: float
    """Default for calls without one."""
    limiter: RateLimiter | None
    observer: RequestObserver
    retry: RetryPolicy
    rng: random.Random
    sleep: Callable[[float], Awaitable[None]]

    async def execute(self, call: Call) -> Response:
        """The response, after as many attempts as the policy allows. Raises the last ApiError or Unreachable."""
        call, tries = self._completed(call), _Counter()
        while True:
            try:
                return _accepted(await self._attempt(call))
            except (ApiError, Unreachable) as error:
                await self._pause_after(tries.next(), call, error)

    async def execute_once(self, call: Call) -> Response:
        """The response of one attempt, whatever its status. Raises Unreachable. A 429 may come from a service
        behind the server's proxy, so it does not slow down other requests."""
        return await self._attempt(self._completed(call))

    @asynccontextmanager
    async def open_stream(self, call: Call) -> AsyncIterator[StreamResponse]:
        """A stream. Opening it is retried like any read; once open, it is not."""
        async with AsyncExitStack() as stack:
            yield await self._open(self._completed(call), stack)

    def _completed(self, call: Call) -> Call:
        request = call.request
        headers = {**self.headers, **request.headers} if request.headers else self.headers
        timeout = call.timeout or self.timeout
        whole = msgspec.structs.replace(request, headers=headers, timeout=timeout)
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
            note = getattr(stream, "note", "")  # few transports have one
            raise error_from(stream.status, stream.headers, body, note)
        return stream

    async def _pause_after(
        self, so_far: RetryState, call: Call, error: ApiError | Unreachable
    ) -> None:
        """Sleep until the next attempt. Raises `error` if there is to be none."""
        if self.limiter and isinstance(error, TooManyRequests) and error.of_load:
            self.limiter.refused()
        method = call.request.method
        delay = delay_before_next(self.retry, so_far, method, error, self.rng.random())
        if delay is None:
            raise error
        await self.sleep(delay)


class _Counter:
    """Counts the attempts of one call and the time since the first."""

    __slots__ = ("_attempts", "_started")

    def __init__(self) -> None:
        self._attempts = 0
        self._started = asyncio.get_running_loop().time()

    def next(self) -> RetryState:
        self._attempts += 1
        return RetryState(self._attempts, asyncio.get_running_loop().time() - self._started)


class _Measure:
    """Reports one attempt to the observer, also when it is cancelled."""

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
    """The body of an error response, as far as it comes within `limit` seconds."""
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
