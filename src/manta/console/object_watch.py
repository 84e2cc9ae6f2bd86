"""The objects that one user may see, kept current by watches with that user's credentials."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple

from manta.api.core import Node
from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_ORIGIN_NAME
from manta.api.ray.resources import RAY_CLUSTERS, RAY_RESOURCES
from manta.api.resources import CORE_EVENTS, NODES, PODS, Resource
from manta.api.well_known import LABEL_APP_COMPONENT
from manta.console.operators import COMPONENTS
from manta.console.rights import EVERYTHING, may, user_name
from manta.console.samples import Samples
from manta.console.snapshot import STALE, Item, Snapshot, item
from manta.console.views import Event, Pod, RayObject
from manta.kube.client import Client
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.interning import Share, share
from manta.runtime.memory import release_memory

SYNC_SECONDS: Final = 10.0
"""How long the first page waits for the first lists of Ray objects."""
OTHERS_SECONDS: Final = 0.3
"""How long it then waits for Pods, Events and nodes: thousands of them come with a message of the stream."""
_ALL: Final = Resource("*", "v1", "*", "")
KNOWN_SECONDS: Final = 5.0
"""How long the answer to a form waits for the watch to bring the object that it created."""
POD_LABELS: Final = (
    LABEL_CLUSTER,
    f"{LABEL_ORIGIN_NAME},!{LABEL_CLUSTER}",  # they submit jobs
    f"{LABEL_APP_COMPONENT} in ({','.join(sorted(COMPONENTS))}),!{LABEL_CLUSTER},!{LABEL_ORIGIN_NAME}",
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


_ALL_OF_THEM: Final = (_Selection(),)
_SEEN: Final[tuple[tuple[Resource, type[Any], Sequence[_Selection]], ...]] = (
    *((one, RayObject, _ALL_OF_THEM) for one in RAY_RESOURCES),
    (PODS, Pod, [_Selection(labels=one) for one in POD_LABELS]),
    (CORE_EVENTS, Event, [_Selection(fields=one) for one in EVENT_FIELDS]),
    (NODES, Node, _ALL_OF_THEM),
)
"""Each with its selections."""
_FIRST: Final = tuple(one.plural for one in RAY_RESOURCES)


class ObjectWatch:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespaces: Sequence[str] = (),
        share: Share = share,
        samples: Samples | None = None,
    ) -> None:
        """`namespaces`: where to look if this user may not list all of them. `share`, `samples`: with other users."""
        self._share = share
        self._client = client
        self._clock = clock
        self._namespaces = tuple(namespaces)
        self._informers: dict[str, tuple[Informer[Any], ...]] = {}
        """By plural: one for each selection."""
        self._refused: dict[str, str] = {}
        self._elsewhere: dict[str, str] = {}
        """Why a Ray kind that is shown for some of the namespaces is not shown for the others."""
        self._items: dict[tuple[str, Key], Item] = {}
        self._samples = samples or Samples()
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._snapshot: tuple[int, Snapshot] | None = None
        self._user = ""
        self.version = 0

    async def start(self) -> None:
        """List everything once. Raises the client's errors if the API server cannot be asked at all."""
        self._user, everything = await asyncio.gather(
            user_name(self._client), may(self._client, EVERYTHING, _ALL)
        )
        # Not all at once: each connection that was open costs 0.3 MiB.
        for resource, into, selections in _SEEN:
            if (scope := () if everything else await self._scope(resource)) is None:
                self._refused[resource.plural] = f"you may not list {resource.group_resource}"
            else:
                others = ", ".join(one for one in self._namespaces if scope and one not in scope)
                if others and resource in RAY_RESOURCES:
                    why = f"you may not list {resource.group_resource} in {others}"
                    self._elsewhere[resource.plural] = why
                self._informers[resource.plural] = tuple(
                    self._watch(resource, into, scope, one) for one in selections
                )
        await self._synced(_FIRST, SYNC_SECONDS)
        await self._synced(self._informers, OTHERS_SECONDS)
        self._tasks.append(asyncio.create_task(self._release_memory()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
        found = [one for plural in plurals for one in self._informers.get(plural, ())]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(one.synced.wait() for one in found))

    async def _release_memory(self) -> None:
        """The lists took more memory than the objects that are kept of them."""
        await self._synced(self._informers, SYNC_SECONDS)
        release_memory()
        self.notify()  # a page may still say that something is being listed

    async def _scope(self, resource: Resource) -> tuple[str, ...] | None:
        """The namespaces to watch: none means all of them; None: nothing may be seen."""
        if await self._may_see(resource, ""):
            return ()
        if not resource.namespaced:
            return None
        return (
            tuple([one for one in self._namespaces if await self._may_see(resource, one)]) or None
        )

    async def _may_see(self, resource: Resource, namespace: str) -> bool:
        verbs = (may(self._client, verb, resource, namespace) for verb in ("list", "watch"))
        return all(await asyncio.gather(*verbs))

    def _watch(
        self, resource: Resource, into: type[Any], scope: Sequence[str], selection: _Selection
    ) -> Informer[Any]:
        informer: Informer[Any] = Informer(
            self._client,
            resource,
            into,
            namespaces=scope,
            labels=selection.labels,
            fields=selection.fields,
            share=self._share,
        )
        informer.add_handler(
            self._keep(resource.kind) if into is RayObject else lambda _old, _new: self.notify()
        )
        self._tasks.append(asyncio.create_task(informer.run(), name=f"watch {resource.plural}"))
        return informer

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

    def _all(self, resource: Resource) -> tuple[Any, ...]:
        found = self._informers.get(resource.plural, ())
        return tuple(chain.from_iterable(one.all() for one in found))

    def trouble(self) -> str:
        """Why what is shown may be out of date; empty: the watches work."""
        informers = chain.from_iterable(self._informers.values())
        why = next((one.watch_error for one in informers if one.watch_error), "")
        return f"What you see {STALE}: {why}" if why else ""

    def _hidden(self) -> Iterator[tuple[str, str]]:
        yield from self._elsewhere.items()
        yield from self._refused.items()
        for plural, informers in self._informers.items():
            errors = [one.watch_error for one in informers if one.watch_error]
            if errors:
                yield plural, f"{plural} {STALE}: {errors[0]}"
            elif not all(one.has_synced for one in informers):
                yield plural, f"{plural} are still being listed"
