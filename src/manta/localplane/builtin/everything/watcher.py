"""Follows every kind that the server serves, and takes up new ones as soon as they are defined.

Kinds that another controller follows in full anyway are taken from its informer; of the others
only traces are kept. Handlers are told of each change with the resource that it is of. That a kind
is no longer served says nothing of its objects: they are forgotten, which is not a deletion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from manta.api.meta import Condition, ObjectMeta, View
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from manta.kube.errors import MantaError
from manta.localplane.builtin.everything.discovery import ACCEPT_AGGREGATED, Kind, read_kinds
from manta.localplane.builtin.everything.trace import Trace
from manta.runtime.cache import Named
from manta.runtime.informer import Informer
from manta.runtime.manager import Manager

log = logging.getLogger(__name__)

MetaHandler = Callable[[Resource, ObjectMeta | None, ObjectMeta | None], None]
ForgetHandler = Callable[[ObjectMeta], None]
Served = Mapping[tuple[str, str], tuple[Kind, ...]]
RETRY_SECONDS = 1.0


class DefinitionStatus(View, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] | None = None


class Definition(View, frozen=True, kw_only=True):
    """A CustomResourceDefinition, without its schemas: they can be megabytes."""

    metadata: ObjectMeta = ObjectMeta()
    status: DefinitionStatus = DefinitionStatus()

    @property
    def stage(self) -> tuple[int, bool]:
        """What discovery depends on: the spec, and whether it is served."""
        said = self.status.conditions or ()
        served = any(one.type == "Established" and one.status == "True" for one in said)
        return self.metadata.generation, served


class Everything:
    def __init__(self, manager: Manager, shared: Mapping[Resource, Informer[Any]]) -> None:
        self._manager = manager
        self._shared = shared
        self._definitions = manager.informer(CUSTOM_RESOURCE_DEFINITIONS, Definition)
        self._definitions.add_handler(self._defined)
        self._handlers: list[MetaHandler] = []
        self._forget_handlers: list[ForgetHandler] = []
        self._informers: dict[Resource, Informer[Any]] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._in_namespace: dict[str, dict[Resource, dict[str, ObjectMeta]]] = {}
        self._outdated = asyncio.Event()
        self._outdated.set()
        self.synced = asyncio.Event()
        """All kinds that were served at the start have been listed."""

    # ── asking ───────────────────────────────────────────────────────────────────────────
    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an owner reference; any version of the group will do."""
        group = api_version.rpartition("/")[0]
        return next(
            (one for one in self._informers if one.kind == kind and one.group == group), None
        )

    def namespaced(self) -> tuple[Resource, ...]:
        return tuple(one for one in self._informers if one.namespaced)

    def objects(self, namespace: str) -> Mapping[Resource, Mapping[str, ObjectMeta]]:
        """All that is known to be in a namespace, by kind and name."""
        return self._in_namespace.get(namespace, {})

    # ── following ────────────────────────────────────────────────────────────────────────
    def add_handler(self, handler: MetaHandler, forget: ForgetHandler | None = None) -> None:
        """`forget` is told of objects of which nothing more will be heard."""
        self._handlers.append(handler)
        if forget:
            self._forget_handlers.append(forget)

    async def run(self) -> None:
        """Keep the set of followed kinds equal to the set of served ones, for ever."""
        try:
            while True:
                await self._outdated.wait()
                self._outdated.clear()
                try:
                    await self._adjust(await self._discover())
                except MantaError as error:
                    log.warning("cannot learn which kinds are served: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                    self._outdated.set()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _discover(self) -> Served:
        documents = []
        for path in ("/api", "/apis"):
            headers = {"accept": ACCEPT_AGGREGATED}
            answer = await self._manager.client.send("GET", path, headers=headers)
            documents.append(msgspec.json.decode(answer.body))
        return read_kinds(*documents)

    async def _adjust(self, served: Served) -> None:
        """A kind stays followed in the version that it is, as long as that is served."""
        wanted = {
            address: next((kind.resource for kind in kinds if kind.is_watchable), None)
            for address, kinds in served.items()
        }
        followed = {(one.group, one.plural): one for one in self._informers}
        for address, resource in wanted.items():
            old = followed.get(address)
            if old is not None and any(kind.resource == old for kind in served[address]):
                continue
            if resource is not None:
                informer = self._start(resource)
                if old is not None:
                    await informer.synced.wait()
                    self._stop(old)
        for address, old in followed.items():
            if wanted.get(address) is None:
                self._stop(old, forget=True)
        if not self.synced.is_set():
            await asyncio.gather(*(one.synced.wait() for one in self._informers.values()))
            self.synced.set()

    def _start(self, resource: Resource) -> Informer[Any]:
        informer = self._shared.get(resource)
        if informer is None:
            informer = Informer(self._manager.client, resource, Trace, random=self._manager.random)
            task = asyncio.create_task(informer.run(), name=f"trace {resource.group_resource}")
            self._tasks[resource] = task
        self._informers[resource] = informer
        informer.add_handler(partial(self._changed, resource))
        return informer

    def _stop(self, resource: Resource, *, forget: bool = False) -> None:
        """Not `forget`: the same objects are followed in another version."""
        if task := self._tasks.pop(resource, None):
            task.cancel()
        for one in self._informers.pop(resource).all():
            self._note(resource, one.metadata, None)
            for handler in self._forget_handlers if forget else ():
                handler(one.metadata)

    def _defined(self, old: Definition | None, new: Definition | None) -> None:
        if old is None or new is None or old.stage != new.stage:
            self._outdated.set()

    def _changed(self, resource: Resource, old: Named | None, new: Named | None) -> None:
        before = old.metadata if old is not None else None
        after = new.metadata if new is not None else None
        self._note(resource, before, after)
        for handler in self._handlers:
            handler(resource, before, after)

    def _note(self, resource: Resource, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        if not resource.namespaced:
            return
        if new is not None:
            kinds = self._in_namespace.setdefault(new.namespace, {})
            kinds.setdefault(resource, {})[new.name] = new
        elif old is not None:
            kinds = self._in_namespace.get(old.namespace, {})
            names = kinds.get(resource, {})
            names.pop(old.name, None)
            if not names:
                kinds.pop(resource, None)
            if not kinds:
                self._in_namespace.pop(old.namespace, None)
