"""Fake nodes for the stories about controllers, which run on the embedded plane and on Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random

from manta.kube.client import Client
from manta.localplane.controllers import ControllerOptions, built_in_controllers
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.localplane.fakenodes.script import Script
from manta.runtime.clock import SystemClock
from manta.runtime.manager import Manager
from support.contract import Api
from support.virtual import running

TIMEOUT = 60.0


@asynccontextmanager
async def nodes(api: Api, count: int = 1) -> AsyncIterator[FakeNodes]:
    """Fake nodes, and the controllers where the server does not bring its own."""
    client, clock = Client(api.transport), SystemClock()
    settings = ControllerOptions(root_ca="PEM", random=Random(1))
    manager = (
        built_in_controllers(client, clock, settings)
        if api.embedded
        else Manager(client, clock, Random(1))
    )
    quick = Script(start=0.05)
    names = FakeNodeOptions(
        count, prefix=f"{api.namespace}-", cpu="4", script=quick, job_seconds=0.2
    )
    kubelets = FakeNodes(manager, names)
    async with running(manager.run()):
        for name in names.names():
            await until(partial(_is_ready, api, name))
        try:
            yield kubelets
        finally:
            for name in names.names():
                await api.delete(f"/api/v1/nodes/{name}")


async def _is_ready(api: Api, node: str) -> bool:
    """The node can take Pods: a new one is tainted until its readiness was seen."""
    answer = await api.get(f"/api/v1/nodes/{node}")
    if answer.status != 200 or (answer.body["spec"] or {}).get("taints"):
        return False
    said = (answer.body.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in said)


async def until(holds: Callable[[], Awaitable[object]], seconds: float = TIMEOUT) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.05)
