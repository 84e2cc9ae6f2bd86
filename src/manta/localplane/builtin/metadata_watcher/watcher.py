"""Watches every kind that the API server serves, and new kinds as soon as their CRD is established.

It reuses the informers of kinds that other controllers watch in full; of the other kinds it keeps
only partial metadata. When a kind is no longer served, its objects are forgotten, which is not the
same as deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from manta.api.meta import Condition, Object, ObjectMeta, View
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from manta.kube.errors import MantaError
from manta.localplane.builtin.metadata_watcher.partial_metadata import PartialObjectMetadata
from manta.runtime.cache import Named
from manta.runtime.informer import Informer
from manta.runtime.manager import Manager

ACCEPT_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
)

# Events are many and own nothing; kube-controller-manager ignores them too.
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})


@dataclass(frozen=True, slots=True)
class Kind:
    resource: Resource
    verbs: frozenset[str]

    @property
    def is_collectable(self) -> bool:
        """Whether the garbage collector can watch and delete its objects."""
        return {"list", "watch", "delete"} <= self.verbs


def read_kinds(*documents: Mapping[str, Any]) -> dict[tuple[str, str], tuple[Kind, ...]]:
    """All versions of each kind, by group and plural; the preferred version is first."""
    found: dict[tuple[str, str], tuple[Kind, ...]] = {}
    for document in documents:
        for kind in _kinds(document):
            group_resource = (kind.resource.group, kind.resource.plural)
            if group_resource not in IGNORED:
                found[group_resource] = (*found.get(group_resource, ()), kind)
    return found


def _kinds(document: Mapping[str, Any]) -> Iterator[Kind]:
    for group in document.get("items") or ():
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or ():
            yield from _kinds_in(name, version["version"], version.get("resources") or ())


def _kinds_in(group: str, version: str, resources: Iterable[Mapping[str, Any]]) -> Iterator[Kind]:
    for one in resources:
        kind = (one.get("responseKind") or {}).get("kind", "")
        resource = Resource(
            group, version, one["resource"], kind, namespaced=one.get("scope") == "Namespaced"
        )
        yield Kind(resource, frozenset(one.get("verbs") or ()))


log = logging.getLogger(__name__)

MetaHandler = Callable[[Resource, ObjectMeta | None, ObjectMeta | None], None]
ForgetHandler = Callable[[ObjectMeta], None]
Served = Mapping[tuple[str, str], tuple[Kind, ...]]
RETRY_SECONDS = 1.0


class DefinitionStatus(View, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] | None = None


class Definition(Object, frozen=True, kw_only=True):
    """A CustomResourceDefinition, without its schemas: they can be megabytes."""

    status: DefinitionStatus = DefinitionStatus()

    @property
    def stage(self) -> tuple[int, bool]:
        """Discovery depends on the generation, and on whether the kind is served."""
        conditions = self.status.conditions or ()
        served = any(one.type == "Established" and one.status == "True" for one in conditions)
        return self.metadata.generation, served


class MetadataWatcher:
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

    # ── queries ──────────────────────────────────────────────────────────────────────────
    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an owner reference, in any version of the group."""
        group = api_version.rpartition("/")[0]
        return next(
            (one for one in self._informers if one.kind == kind and one.group == group), None
        )

    def namespaced(self) -> tuple[Resource, ...]:
        return tuple(one for one in self._informers if one.namespaced)

    def objects(self, namespace: str) -> Mapping[Resource, Mapping[str, ObjectMeta]]:
        """The metadata of all known objects in a namespace, by kind and name."""
        return self._in_namespace.get(namespace, {})

    # ── watching ─────────────────────────────────────────────────────────────────────────
    def add_handler(self, handler: MetaHandler, forget: ForgetHandler | None = None) -> None:
        """`forget` is called for objects that are no longer watched."""
        self._handlers.append(handler)
        if forget:
            self._forget_handlers.append(forget)

    async def run(self) -> None:
        """Watch exactly the kinds that are served, until cancelled."""
        try:
            while True:
                await self._outdated.wait()
                self._outdated.clear()
                try:
                    await self._adjust(await self._discover())
                except MantaError as error:
                    log.warning("cannot discover which kinds are served: %s", error)
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
        """Start and stop informers. A kind keeps its version as long as that version is served."""
        wanted = {
            address: next((kind.resource for kind in kinds if kind.is_collectable), None)
            for address, kinds in served.items()
        }
        watched = {(one.group, one.plural): one for one in self._informers}
        for address, resource in wanted.items():
            old = watched.get(address)
            if old is not None and any(kind.resource == old for kind in served[address]):
                continue
            if resource is not None:
                informer = self._start(resource)
                if old is not None:
                    await informer.synced.wait()
                    self._stop(old)
        for address, old in watched.items():
            if wanted.get(address) is None:
                self._stop(old, forget=True)
        if not self.synced.is_set():
            await asyncio.gather(*(one.synced.wait() for one in self._informers.values()))
            self.synced.set()

    def _start(self, resource: Resource) -> Informer[Any]:
        informer = self._shared.get(resource)
        if informer is None:
            informer = Informer(
                self._manager.client, resource, PartialObjectMetadata, random=self._manager.random
            )
            task = asyncio.create_task(
                informer.run(), name=f"metadata of {resource.group_resource}"
            )
            self._tasks[resource] = task
        self._informers[resource] = informer
        informer.add_handler(partial(self._changed, resource))
        return informer

    def _stop(self, resource: Resource, *, forget: bool = False) -> None:
        """`forget` is False when the same objects are watched in another version."""
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
