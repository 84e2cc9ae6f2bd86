"""Tests under virtual time, on the embedded server in memory.

@virtually
async def test_something() -> None:
    async with virtual_plane() as plane: ...
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, ParamSpec

from manta.localplane.inprocess import InProcessTransport
from support.faults import FaultTransport
from support.plane import MemoryPlane, memory_plane
from support.virtual_time import EPOCH, run_virtual, virtual_clock

P = ParamSpec("P")


def virtually(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test to its end on a loop whose time jumps."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtual(test(*args, **kwargs))

    return run


@asynccontextmanager
async def virtual_plane(
    crds: Iterable[Mapping[str, Any]] = (), epoch: datetime = EPOCH
) -> AsyncIterator[MemoryPlane]:
    async with memory_plane(clock=virtual_clock(epoch), crds=crds) as plane:
        yield plane


def faulty(plane: MemoryPlane) -> FaultTransport:
    return FaultTransport(InProcessTransport(plane.app))


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Let virtual time pass until the condition holds; fail when it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Run these in the background; a failure of one fails the test."""
    tasks = [asyncio.create_task(one) for one in coroutines]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
