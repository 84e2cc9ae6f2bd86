"""The objects that one user may see, kept current by watches with that user's credentials."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple

from manta.api.core import Node
from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_ORIGIN_NAME
from manta.api.ray.resources import RAY_CLUSTERS, RAY_RESOURCES
from manta.api.resources import CORE_EVENTS, NODES, PODS, Resource
from manta.console import operators
from manta.console.samples import Samples
from manta.console.scopes import ask_scopes
from manta.console.snapshot import STALE, Item, Snapshot, item
from manta.console.views import Event, Pod, RayObject, names_above
from manta.kube.client import Client
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.interning import Share, share
from manta.runtime.memory import release_memory

SYNC_SECONDS: Final = 10.0
"""How long the first page waits for the first lists of Ray objects."""
OTHERS_SECONDS: Final = 0.3
"""How long it then waits for Pods, Events and nodes: thousands of them come with a message of the stream."""
KNOWN_SECONDS: Final = 5.0
"""How long the answer to a form waits for the watch to bring the object that it created."""


def _equal(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


POD_LABELS: Final = (
    LABEL_CLUSTER,
    f"{LABEL_ORIGIN_NAME},!{LABEL_CLUSTER}",  # they submit jobs
    *(f"{_equal(one)},!{LABEL_CLUSTER},!{LABEL_ORIGIN_NAME}" for one in operators.LABELS),
)
"""The Pods of Ray and of operators, each in one of these selections: a cluster may have thousands of others."""
EVENT_FIELDS: Final = (
    f"involvedObject.apiVersion={RAY_CLUSTERS.api_version}",
    "involvedObject.kind=Pod",
)
"""Events of Ray objects and of Pods, each in one of these selections: no page shows others."""


class _Selection(NamedTuple):
    labels: str = ""
    fields: str = ""


class _Watched(NamedTuple):
    """What is watched of one resource in one scope."""

    informers: tuple[Informer[Any], ...]
    """One for each selection."""
    tasks: tuple[asyncio.Task[None], ...]


_ALL_OF_THEM: Final = (_Selection(),)
_SEEN: Final[tuple[tuple[Resource, type[Any], Sequence[_Selection]], ...]] = (
    *((one, RayObject, _ALL_OF_THEM) for one in RAY_RESOURCES),
    (PODS, Pod, [_Selection(labels=one) for one in POD_LABELS]),
    (CORE_EVENTS, Event, [_Selection(fields=one) for one in EVENT_FIELDS]),
    (NODES, Node, _ALL_OF_THEM),
)
"""Each with its selections."""
_RESOURCES: Final = tuple(one for one, _, _ in _SEEN)
_PLURALS: Final = tuple(one.plural for one in _RESOURCES)
_FIRST: Final = tuple(one.plural for one in RAY_RESOURCES)
_WITH_PODS: Final = ("RayCluster", "RayJob")
"""Kinds whose names begin those of Pods."""
_Place = tuple[str, str]
"""A plural and a scope: a namespace, or '' for all of them."""


class ObjectWatch:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespaces: Sequence[str] = (),
        share: Share = share,
        samples: Samples | None = None,
        *,
        user: str = "",
    ) -> None:
        """`namespaces`: where to look if this user may not list all of them. `share`, `samples`: with other users.
        `user`: whom pages name."""
        self._share = share
        self._client = client
        self._clock = clock
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._scopes: dict[str, tuple[str, ...]] = {}
        """Where each resource may be seen, by plural; none: nowhere."""
        self._watched: dict[_Place, _Watched] = {}
        self._reviewing = asyncio.Lock()
        self._closed = False
        self._items: dict[tuple[str, Key], Item] = {}
        self._samples = samples or Samples()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._snapshot: tuple[int, Snapshot] | None = None
        self._user = user
        self.version = 0

    async def start(self) -> None:
        """List everything once. Raises the client's errors if the API server cannot be asked at all."""
        await self.review()
        await self._synced(_FIRST, SYNC_SECONDS)
        await self._synced(_PLURALS, OTHERS_SECONDS)

    async def review(self) -> None:
        """Ask again where this user may look. What may no longer be seen is gone when this returns, and what may be
        seen now is being listed. Raises the client's errors."""
        async with self._reviewing:
            self._scopes = dict(await ask_scopes(self._client, _RESOURCES, self._namespaces))
            allowed = {(plural, scope) for plural in self._scopes for scope in self._scopes[plural]}
            for place in self._watched.keys() - allowed:
                await self._forget(place)
            if self._closed:
                return
            fresh = [
                (resource, into, selections, scope)
                for resource, into, selections in _SEEN
                for scope in self._scopes[resource.plural]
                if (resource.plural, scope) not in self._watched
            ]
            for one in fresh:
                self._watch(*one)
            if fresh:
                self._hold(asyncio.create_task(self._release_memory(), name="release memory"))

    async def close(self) -> None:
        self._closed = True
        for task in (tasks := tuple(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def snapshot(self) -> Snapshot:
        """The state now. All tabs share one until something changes, with the indexes that pages made of it."""
        held = self._snapshot
        if held is None or held[0] != self.version or self._now() != held[1].now:
            held = self._snapshot = (self.version, self._new_snapshot())
        return held[1]

    def _now(self) -> datetime:
        """In whole seconds: ages are shown in no finer steps."""
        return self._clock.now().replace(microsecond=0)

    def _new_snapshot(self) -> Snapshot:
        return Snapshot(
            now=self._now(),
            items=tuple(self._items.values()),
            pods=self._all(PODS),
            nodes=self._all(NODES),
            events=self._all(CORE_EVENTS),
            hidden=dict(self._hidden()),
            user=self._user,
            samples=self._samples.all(),
        )

    async def wait_newer(self, version: int, seconds: float) -> None:
        """Return when something has changed since this version, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.version == version:
                    await self._changed.wait()

    async def until_known(self, kind: str, key: Key) -> None:
        """Return when a new object can be shown, or after `KNOWN_SECONDS`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KNOWN_SECONDS):
                while (kind, key) not in self._items:
                    await self._changed.wait()

    # ── inside ───────────────────────────────────────────────────────────────────────────

    async def _synced(self, plurals: Iterable[str], seconds: float) -> None:
        """Return when these have been listed, or after so many seconds."""
        found = [one for plural in plurals for one in self._informers(plural)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(one.synced.wait() for one in found))

    async def _release_memory(self) -> None:
        """The lists took more memory than the objects that are kept of them."""
        await self._synced(_PLURALS, SYNC_SECONDS)
        release_memory()
        self.notify()  # a page may still say that something is being listed

    def _watch(
        self, resource: Resource, into: type[Any], selections: Sequence[_Selection], scope: str
    ) -> None:
        place = (resource.plural, scope)
        informers: list[Informer[Any]] = []
        for one in selections:
            informer: Informer[Any] = Informer(
                self._client,
                resource,
                into,
                namespace=scope,
                labels=one.labels,
                fields=one.fields,
                share=self._share,
                keep=self._is_of_ray if resource is CORE_EVENTS else None,
            )
            changed = self._keep(resource.kind) if into is RayObject else self._other
            informer.add_handler(changed)
            informer.add_forbidden_handler(
                lambda _: self._hold(asyncio.create_task(self._refused(place)))
            )
            informers.append(informer)
        name = f"watch {resource.plural}"
        runs = self._run_after_pods if resource is CORE_EVENTS else Informer.run
        tasks = tuple(asyncio.create_task(runs(one), name=name) for one in informers)
        self._hold(*tasks)
        self._watched[place] = _Watched(tuple(informers), tasks)

    async def _refused(self, place: _Place) -> None:
        """A watch has been refused: its objects go at once. The next review asks whether it may come back."""
        plural, scope = place
        async with self._reviewing:
            if place in self._watched:
                self._scopes[plural] = tuple(one for one in self._scopes[plural] if one != scope)
                await self._forget(place)

    async def _forget(self, place: _Place) -> None:
        watched = self._watched.pop(place)
        for task in watched.tasks:
            task.cancel()
        await asyncio.gather(*watched.tasks, return_exceptions=True)
        for informer in watched.informers:
            for one in informer.all():
                # Not the samples: others may see the object.
                self._items.pop((informer.resource.kind, one.metadata.key), None)
        self.notify()

    def _hold(self, *tasks: asyncio.Task[None]) -> None:
        """They end with this watch at the latest."""
        for task in tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_after_pods(self, events: Informer[Any]) -> None:
        """The Events of a Pod are kept if the Pod is known to be one of Ray."""
        await self._synced((*_FIRST, PODS.plural), SYNC_SECONDS)
        await events.run()

    def _is_of_ray(self, event: Event) -> bool:
        """A cluster has Events of thousands of other Pods. A Pod that is gone counts by its name, which begins with
        that of what created it."""
        about = event.involved_object
        if about.kind != "Pod":
            return True
        key = Key(about.namespace, about.name)
        if any(one.get(key) is not None for one in self._informers(PODS.plural)):
            return True
        above = (Key(about.namespace, name) for name in names_above(about.name))
        return any((kind, one) in self._items for one in above for kind in _WITH_PODS)

    def _other(self, _old: object, _new: object) -> None:
        self.notify()

    def _keep(self, kind: str) -> Callable[[RayObject | None, RayObject | None], None]:
        def changed(old: RayObject | None, new: RayObject | None) -> None:
            if new is None:
                assert old is not None
                self._items.pop((kind, old.metadata.key), None)
                self._samples.forget(old.metadata.uid)
            else:
                found = self._items[kind, new.metadata.key] = item(kind, new)
                self._samples.add(found, self._clock.now())
            self.notify()

        return changed

    def notify(self) -> None:
        """Tell the streams that a page may look different now."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _informers(self, plural: str) -> tuple[Informer[Any], ...]:
        scopes = self._scopes.get(plural, ())
        found = [self._watched[plural, one] for one in scopes if (plural, one) in self._watched]
        return tuple(chain.from_iterable(one.informers for one in found))

    def _all(self, resource: Resource) -> tuple[Any, ...]:
        return tuple(chain.from_iterable(one.all() for one in self._informers(resource.plural)))

    def trouble(self) -> str:
        """Why what is shown may be out of date; empty: the watches work."""
        informers = chain.from_iterable(one.informers for one in self._watched.values())
        why = next((one.watch_error for one in informers if one.watch_error), "")
        return f"What you see {STALE}: {why}" if why else ""

    def _hidden(self) -> Iterator[tuple[str, str]]:
        for resource in _RESOURCES:
            plural, name = resource.plural, resource.group_resource
            scopes, informers = self._scopes.get(plural, ()), self._informers(plural)
            errors = [one.watch_error for one in informers if one.watch_error]
            elsewhere = [one for one in self._namespaces if one not in scopes]
            if not scopes:
                yield plural, f"you may not list {name}"
            elif errors:
                yield plural, f"{plural} {STALE}: {errors[0]}"
            elif not all(one.has_synced for one in informers):
                yield plural, f"{plural} are still being listed"
            elif elsewhere and "" not in scopes and resource in RAY_RESOURCES:
                yield plural, f"you may not list {name} in {', '.join(elsewhere)}"
