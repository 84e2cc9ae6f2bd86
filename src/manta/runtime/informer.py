"""A shared cache of one resource, and handlers for its changes.

An informer has one cache, filled by one reflector per watched namespace. Handlers are called synchronously,
in the order in which they were added, with the object before and after; they must be fast.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from manta.api.meta import Key, Uid
from manta.api.resources import Resource
from manta.api.selectors import parse_label_selector
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.kube.watch_stream import WatchEvent
from manta.runtime.cache import Cache, Change, Named
from manta.runtime.index import IndexFunction
from manta.runtime.interning import Share, share
from manta.runtime.reflector import Reflector, WatchTiming
from manta.runtime.selection import Selection, list_readable
from manta.runtime.versions import is_newer, number

T = TypeVar("T", bound=Named)

Handler = Callable[[T | None, T | None], None]
"""Called with (before, after). None before: it was created; None after: it was deleted."""

ReadabilityHandler = Callable[[Key], None]
"""Called when an object can no longer be decoded, or can be again: see `Informer.unreadable`."""

ForbiddenHandler = Callable[[str], None]
"""Called with a scope that the server refused to list or watch (403). The cache keeps what it has."""

ProgressHandler = Callable[[str], None]
"""Called when the version of a scope (a watched namespace, or '') has advanced."""

log = logging.getLogger(__name__)


class Informer(Generic[T]):
    def __init__(  # noqa: PLR0913  a selection of objects has many parts
        self,
        client: Client,
        resource: Resource,
        into: type[T],
        *,
        namespace: str = "",
        namespaces: Sequence[str] = (),
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        random: Random | None = None,
        timing: WatchTiming | None = None,
        on_demand: bool = False,
        share: Share = share,
        keep: Callable[[T], bool] | None = None,
    ) -> None:
        """An empty `namespace` and no `namespaces`: the whole cluster. With `on_demand`, nothing is listed
        before `activate` is called, and no controller waits for the cache. `keep`: which of the selected objects
        are cached, for what no selector can say; it is asked when they are read, and not again."""
        self.resource = resource
        self.synced = asyncio.Event()
        self.on_demand = on_demand
        self._activated = asyncio.Event()
        self._client = client
        self._share = share
        self._wanted = keep
        self._selection = Selection(resource, into, labels, fields)
        self._selector = parse_label_selector(labels)
        self._cache: Cache[T] = Cache(indexes)
        self._handlers: list[Handler[T]] = []
        self._progress_handlers: list[ProgressHandler] = []
        self._readability_handlers: list[ReadabilityHandler] = []
        self._forbidden_handlers: list[ForbiddenHandler] = []
        self._unreadable: dict[Key, str] = {}
        self._versions: dict[str, str] = {}
        self._watch_errors: dict[str, str] = {}
        self._random = random or Random()  # noqa: S311  jitter, not a secret
        self._timing = timing or WatchTiming()
        scopes = tuple(dict.fromkeys(namespaces)) if resource.namespaced else ()
        self._reflectors = {scope: self._reflector(scope) for scope in scopes or (namespace,)}

    # ── reading ──────────────────────────────────────────────────────────────────────────

    def get(self, key: Key) -> T | None:
        return self._cache.get(key)

    def all(self) -> tuple[T, ...]:
        return self._cache.all()

    def by(self, index: str, value: str) -> tuple[T, ...]:
        return self._cache.by(index, value)

    def __len__(self) -> int:
        return len(self._cache)

    def unreadable(self, key: Key) -> str | None:
        """Why the object cannot be decoded; None if it can be or does not exist."""
        return self._unreadable.get(key)

    @property
    def has_synced(self) -> bool:
        """Whether all objects have been listed once. Before that, absence means nothing."""
        return self.synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version of the watch; of several namespaces, the oldest."""
        if len(self._versions) < len(self._reflectors):
            return ""
        return min(self._versions.values(), key=lambda version: number(version) or 0)

    @property
    def watch_error(self) -> str | None:
        """Why the cache may be out of date; None if the watch works."""
        return next(iter(self._watch_errors.values()), None)

    @property
    def restarts(self) -> int:
        """How often a watch was restarted."""
        return sum(one.restarts for one in self._reflectors.values())

    def estimated_bytes(self, sample: int = 50) -> float:
        """The size of the cached objects as JSON, estimated from a sample."""
        held = self._cache.all()
        some = held[:: max(len(held) // sample, 1)]
        total = sum(len(msgspec.json.encode(one)) for one in some)
        return total * len(held) / len(some) if some else 0.0

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether the label selector matches (the field selector is not checked)."""
        return self._selector.matches(labels)

    def scope_of(self, key: Key) -> str | None:
        """The watched namespace of `key`; None if it is not watched."""
        return next((scope for scope in (key.namespace, "") if scope in self._reflectors), None)

    def reached(self, scope: str) -> int | None:
        """The version that this scope has reached; None if unknown or not a number."""
        return number(self._versions.get(scope, ""))

    # ── handlers ─────────────────────────────────────────────────────────────────────────

    def add_handler(self, handler: Handler[T]) -> None:
        """Add a handler, and call it for every object in the cache."""
        self._handlers.append(handler)
        for one in self._cache.all():
            handler(None, one)

    def add_readability_handler(self, handler: ReadabilityHandler) -> None:
        """Add a handler for objects that can no longer be decoded, or can be again."""
        self._readability_handlers.append(handler)

    def add_forbidden_handler(self, handler: ForbiddenHandler) -> None:
        self._forbidden_handlers.append(handler)

    def add_progress_handler(self, handler: ProgressHandler) -> None:
        self._progress_handlers.append(handler)

    @property
    def index_failures(self) -> int:
        """How often an object could not be put into an index."""
        return self._cache.index_failures

    def add_index(self, name: str, values: IndexFunction[T]) -> None:
        self._cache.add_index(name, values)

    def activate(self) -> None:
        """Start an informer that was created with `on_demand`."""
        self._activated.set()

    async def run(self) -> None:
        """List and watch for ever."""
        if self.on_demand:
            await self._activated.wait()
        async with asyncio.TaskGroup() as group:
            for scope, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"watch {self._label(scope)}")

    # ── live reads ───────────────────────────────────────────────────────────────────────

    async def read(self, key: Key, uid: Uid | None = None) -> T | None:
        """Read one object from the server and update the cache; None if it does not exist."""
        try:
            one = await self._client.get(self.resource, key, into=self._selection.into)
        except NotFound as error:
            if error.of_type:
                raise  # the resource type is gone, not the object
            held = self._cache.get(key)
            gone = uid or (held.metadata.uid if held else None)
            if gone:
                self._notify(self._cache.tombstone(key, gone))
            return None
        if not self.selects(one.metadata.labels):
            self._notify(self._cache.remove(key))
            return None
        held = self._cache.get(key)
        if held is not None and held.metadata.uid != one.metadata.uid:
            self._notify(self._cache.tombstone(key, held.metadata.uid))
        self._notify(self._cache.put(self._share(one)))
        return one

    async def read_all(self) -> None:
        """List everything from the server: the cache is then no older than this call."""
        for scope in self._reflectors:
            await self.read_namespace(scope)

    async def read_namespace(self, namespace: str) -> None:
        """List one namespace from the server and update the cache."""
        listed = await list_readable(self._client, self._selection, namespace)
        items = [self._share(one) for one in listed.items]
        there = (listed.resource_version, namespace)
        for change in self._cache.replace(items, *there, tombstone=True, keep=listed.unreadable):
            self._notify(change)

    # ── callbacks of the reflectors ──────────────────────────────────────────────────────

    def on_list(
        self,
        scope: str,
        objects: Sequence[T],
        resource_version: str,
        unreadable: Collection[Key] = (),
    ) -> None:
        if is_newer(self._versions.get(scope, ""), resource_version):
            log.warning(
                "%s: the server has older versions than before; it was restored from a backup",
                self._label(scope),
            )
            for change in self._cache.forget(scope):
                self._notify(change)
        kept = objects if self._wanted is None else [one for one in objects if self._wanted(one)]
        for change in self._cache.replace(kept, resource_version, scope, keep=unreadable):
            self._notify(change)
        self._advance(scope, resource_version)
        if len(self._versions) == len(self._reflectors):
            self.synced.set()

    def on_event(self, scope: str, event: WatchEvent[Any]) -> None:
        if self._unreadable and event.type != "BOOKMARK":
            self.on_readability(event.object.metadata.key, None)
        if event.type == "DELETED":
            meta = event.object.metadata
            self._notify(self._cache.remove(meta.key, meta.uid))
        elif event.type != "BOOKMARK" and (self._wanted is None or self._wanted(event.object)):
            before = self._cache.get(event.object.metadata.key)
            self._notify(self._cache.put(self._share(event.object, before)))
        self._advance(scope, event.resource_version)

    def on_readability(self, key: Key, why: str | None) -> None:
        """Record why an object cannot be decoded; None: it can be, or is gone."""
        if self._unreadable.get(key) == why:
            return
        if why is None:
            del self._unreadable[key]
        else:
            self._unreadable[key] = why
        for handler in self._readability_handlers:
            handler(key)

    def on_watch_error(self, scope: str, why: str | None) -> None:
        before = self._watch_errors.get(scope)
        if why == before:
            return
        if why is None:
            del self._watch_errors[scope]
            log.info("%s is being watched again", self._label(scope))
        else:
            self._watch_errors[scope] = why
            log.warning("cannot watch %s: %s", self._label(scope), why)

    def on_forbidden(self, scope: str) -> None:
        for handler in self._forbidden_handlers:
            handler(scope)

    # ── inside ───────────────────────────────────────────────────────────────────────────

    def _reflector(self, scope: str) -> Reflector[T]:
        return Reflector(
            self._client, self._selection, scope, self, self._random, self._timing, self._share
        )

    def _notify(self, change: Change[T] | None) -> None:
        if change is not None:
            for handler in self._handlers:
                handler(change.old, change.new)

    def _advance(self, scope: str, resource_version: str) -> None:
        if resource_version:
            self._versions[scope] = resource_version
        for handler in self._progress_handlers:
            handler(scope)

    def _label(self, scope: str) -> str:
        where = f" in {scope}" if scope else ""
        return f"{self.resource.group_resource}{where}"
