"""Fake nodes for any API server, in the test's own process: Pods become Ready, and none runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from manta.api.meta import Key
from manta.api.resources import NODES
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.transport import HttpTransport
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.runtime.clock import SystemClock
from manta.runtime.manager import Manager
from support.virtual import running


@asynccontextmanager
async def fake_nodes(kubeconfig: Path, prefix: str) -> AsyncIterator[FakeNodes]:
    client = Client(HttpTransport(load(kubeconfig)))
    options = FakeNodeOptions(count=1, prefix=prefix)
    manager = Manager(client, SystemClock(), Random(1))
    nodes = FakeNodes(manager, options)
    try:
        async with running(manager.run()):
            yield nodes
    finally:
        for name in options.names():
            await client.delete(NODES, Key("", name))
        await client.close()
