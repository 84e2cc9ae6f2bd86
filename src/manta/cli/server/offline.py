"""An API server inside this process, with the CRDs only: it checks manifests without a cluster."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from manta.api.crds import crd_documents
from manta.api.resources import NAMESPACES
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.inprocess import InProcessTransport
from manta.localplane.store.store import Store
from manta.runtime.clock import SystemClock


@asynccontextmanager
async def offline_client(namespaces: Iterable[str]) -> AsyncIterator[Client]:
    """A client of a new API server with these namespaces, which ends with the context."""
    clock = SystemClock()
    store = Store(elapsed=clock.monotonic)
    app = App(store, clock=clock.now, random=random.Random(0))  # noqa: S311  names, no secrets
    bootstrap(app)
    for crd in crd_documents():
        app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd)
    client = Client(InProcessTransport(app))
    try:
        for name in sorted(set(namespaces)):
            try:
                await client.create(NAMESPACES, "", {"metadata": {"name": name}})
            except AlreadyExists:
                continue
        yield client
    finally:
        await client.close()
        await store.close()
