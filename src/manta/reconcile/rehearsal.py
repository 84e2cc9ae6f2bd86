"""What a preview reads: an object as it would be, and the rest of the world once, as informers hold it.

Nothing is written: the server is asked to check an edit and to keep nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import Forbidden, NotFound
from manta.reconcile.plan import Plan
from manta.runtime.cache import Named

T = TypeVar("T", bound=Named)
Seen = TypeVar("Seen")
Document = Mapping[str, Any]
Indexes = Mapping[str, Callable[[Any], tuple[str, ...]]]
_MOST_STATUS_ROUNDS = 3
"""Names and decisions are in the status before anything bears them: what comes after is shown too."""


def first_plan(
    seen: Seen, plan: Callable[[Seen], Plan], after_status: Callable[[Seen], Seen | None]
) -> tuple[Seen, Plan]:
    """The first plan that does something, and the world that it is for, after the status writes that
    come before it. `after_status`: the world once its status is written; None when it is the same."""
    chosen = plan(seen)
    for _ in range(_MOST_STATUS_ROUNDS):
        if chosen.actions or (later := after_status(seen)) is None:
            break
        seen, chosen = later, plan(later)
    return seen, chosen


async def live_and_wanted(
    client: Client, resource: Resource, key: Key, manifest: Document | None
) -> tuple[Document | None, Document | None]:
    """The object as it is, and as it would be with the manifest laid over it, if one is given."""
    live = await read_live(client, resource, key)
    if manifest is None:
        return live, live
    return live, await laid_over(client, resource, key, live, manifest)


async def read_live(client: Client, resource: Resource, key: Key) -> Document | None:
    try:
        return await client.get(resource, key)
    except NotFound:
        return None


async def laid_over(
    client: Client, resource: Resource, key: Key, live: Document | None, manifest: Document
) -> Document:
    """The object as it would be: the server checks it and fills in its defaults, and keeps nothing.

    Strictly: a field that the schema does not know would be dropped, which nobody means.
    """
    wanted = dict(manifest.get("metadata") or {})
    if live is None:
        body = {**manifest, "metadata": {**wanted, "namespace": key.namespace}}
        return await client.create(
            resource, key.namespace, body, into=dict, dry_run=True, field_validation="Strict"
        )
    meta = dict(live["metadata"])
    for name in ("labels", "annotations"):
        meta[name] = {**meta.get(name, {}), **(wanted.get(name) or {})}
    body = {**live, "metadata": meta, "spec": manifest.get("spec")}
    body |= {name: value for name, value in manifest.items() if name not in (*live, "metadata")}
    return await client.replace(
        resource, key, body, into=dict, dry_run=True, field_validation="Strict"
    )


class Listing(Generic[T]):
    """As much of an informer as an observer asks for, of one namespace."""

    def __init__(self, objects: Iterable[T], indexes: Indexes) -> None:
        self._objects = {one.metadata.key: one for one in objects}
        self._indexes = indexes
        self.is_filled = True

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def by(self, index: str, value: str) -> tuple[T, ...]:
        values = self._indexes[index]
        return tuple(one for one in self._objects.values() if value in values(one))


class Reader:
    """Reads one namespace. Its answers are Any because they stand in for informers."""

    def __init__(self, client: Client, namespace: str, indexes: Indexes) -> None:
        self._client = client
        self._namespace = namespace
        self._indexes = indexes

    async def listed(self, resource: Resource, into: type[Any], labels: str = "") -> Any:
        """All of a kind, with these labels if any are given."""
        found = await self._client.list(resource, self._namespace, into=into, labels=labels)
        return Listing(found.items, self._indexes)

    async def listed_if_possible(
        self, resource: Resource, into: type[Any], labels: str = ""
    ) -> Any:
        """As `listed`; of what the user may not list, or the server does not have, nothing is known."""
        try:
            return await self.listed(resource, into, labels)
        except (Forbidden, NotFound):
            unknown: Listing[Any] = Listing((), self._indexes)
            unknown.is_filled = False
            return unknown

    def only(self, one: Named) -> Any:
        """As if nothing else of its kind were there."""
        return Listing([one], self._indexes)
