"""The SDK's clients on the embedded server with the real controllers, fake Pods and a fake Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import manta
from manta.sdk.loop_thread import LoopThread
from support.raycluster import NAMESPACE
from support.rayjob_scenario import Scenario, a_scenario, operator


@asynccontextmanager
async def an_async_client(
    *, cleanup: bool = False, **ray: Any
) -> AsyncIterator[tuple[manta.AsyncClient, Scenario]]:
    """`ray` are options of FakeRay, such as `finish_after`."""
    async with a_scenario(**ray) as scenario, operator(scenario):
        yield manta.AsyncClient.from_kube(scenario.client, NAMESPACE, cleanup=cleanup), scenario


@contextmanager
def a_client(*, cleanup: bool = False, **ray: Any) -> Iterator[tuple[manta.Client, Scenario]]:
    """In real time: server, controllers and Pods live in the thread of the client."""
    loop, stack = LoopThread(), AsyncExitStack()
    try:
        core, scenario = loop.run(
            stack.enter_async_context(an_async_client(cleanup=cleanup, **ray))
        )
        yield manta.Client.from_async(core, loop), scenario
        loop.run(stack.aclose())
    finally:
        loop.close()
