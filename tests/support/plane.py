"""The embedded API server for tests: in memory, in process, no socket, no thread.

    async with memory_plane() as plane:
        await plane.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})

Under a virtual-time loop give `clock=LoopClock(epoch)`; the same seed then gives the same names.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from manta.httpserver.messages import User
from manta.kube.client import Client
from manta.localplane.apiserver.admission_context import SERVICE_NETWORK
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.inprocess import InProcessTransport
from manta.localplane.store.store import Store
from manta.runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class MemoryPlane:
    app: App
    client: Client
    clock: Clock

    def client_as(self, user: User) -> Client:
        return Client(InProcessTransport(self.app, user))


@asynccontextmanager
async def memory_plane(
    *,
    clock: Clock | None = None,
    seed: int = 1,
    crds: Iterable[Mapping[str, Any]] = (),
    user: User = ADMIN,
    services: IPv4Network = SERVICE_NETWORK,
) -> AsyncIterator[MemoryPlane]:
    """A fresh server with the standard namespaces and the given CRDs already served."""
    clock = clock or SystemClock()
    store = Store(elapsed=clock.monotonic)
    app = App(store, clock=clock.now, random=random.Random(seed), services=services)
    bootstrap(app)
    for crd in crds:
        app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", json.loads(json.dumps(crd)))
    plane = MemoryPlane(app, Client(InProcessTransport(app, user)), clock)
    try:
        yield plane
    finally:
        await plane.client.close()
        await store.close()
