"""A fresh API server in memory, cheap to make again and again, that tells of every write.

Most of the time to start a server goes into the Ray CRDs. They are checked and compiled once per process and
put into each new store as they were stored the first time.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.crds import crd_documents
from manta.api.resources import ROUTES
from manta.localplane.apiserver import custom_resources
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.apiserver.definitions import STORAGE
from manta.localplane.apiserver.schema.compiled import compile_schema
from manta.localplane.store.objects import Change, Record
from manta.localplane.store.store import Store
from manta.runtime.clock import Clock
from support.rayservice import GATEWAY_CRDS, open_crd
from support.virtual_time import EPOCH

ACTOR: ContextVar[str] = ContextVar("actor", default="")
"""Who sends the request that is being served."""


@dataclass(frozen=True, slots=True)
class Written:
    """One accepted write."""

    at: float
    by: str
    type: str
    resource: str
    """As `pods` or `rayclusters.ray.io`."""
    object: dict[str, Any]

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.object["metadata"]
        return found

    @property
    def name(self) -> str:
        return str(self.metadata["name"])


Observer = Callable[[Written], None]


class ObservedStore(Store):
    """A store that calls `observer` with every write, right after it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(elapsed=clock.monotonic)
        self.clock = clock
        self.observer: Observer | None = None

    def _publish(self, resource: str, change: Change) -> None:
        super()._publish(resource, change)
        if self.observer is None:
            return
        body = msgspec.json.decode(change.record.raw)
        self.observer(
            Written(self.clock.monotonic(), ACTOR.get(), change.type, short_name(resource), body)
        )


def short_name(resource: str) -> str:
    return resource.removesuffix(".")


def new_app(clock: Clock, seed: int) -> App:
    """A server with the standard namespaces and all CRDs of this release."""
    store = ObservedStore(clock)
    app = App(store, clock=clock.now, random=random.Random(seed))
    bootstrap(app)
    stored = _stored()
    for one in stored.records:
        table = store.resource(STORAGE)
        table.put(Record(one.key, one.raw, one.revision, one.epoch), store.elapsed())
    store.revision = store._durable = stored.revision
    app.core.registry._custom.update(stored.resources)
    app.core.registry._rebuild()
    return app


@dataclass(frozen=True, slots=True)
class _Stored:
    """The CRDs as a server stores and serves them right after its bootstrap."""

    records: tuple[Record, ...]
    resources: dict[str, Any]
    revision: int


@functools.cache
def _stored() -> _Stored:
    _compile_once()
    store = Store(elapsed=lambda: 0.0)
    app = App(store, clock=lambda: EPOCH, random=random.Random(1))
    bootstrap(app)
    for crd in (*crd_documents(), *GATEWAY_CRDS, open_crd(ROUTES)):
        body = msgspec.json.decode(msgspec.json.encode(crd))
        app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", body)
    records = tuple(store.select(STORAGE))
    return _Stored(records, dict(app.core.registry._custom), store.revision)


def _compile_once() -> None:
    """A compiled schema is frozen: all servers of this process share it."""
    known: dict[bytes, Any] = {}

    def compiled(openapi: Any) -> Any:
        key = msgspec.json.encode(openapi)
        if key not in known:
            known[key] = compile_schema(openapi)
        return known[key]

    setattr(custom_resources, "compile_schema", compiled)  # noqa: B010  not exported
