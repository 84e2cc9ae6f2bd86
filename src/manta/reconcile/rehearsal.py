"""What a preview reads: an object as it would be, and the rest of the world once, as informers hold it.

Nothing is written: the server is asked to check an edit and to keep nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.runtime.cache import Named

T = TypeVar("T", bound=Named)
Document = Mapping[str, Any]
Indexes = Mapping[str, Callable[[Any], tuple[str, ...]]]


async def read_live(client: Client, resource: Resource, key: Key) -> Document | None:
    try:
        return await client.get(resource, key)
    except NotFound:
        return None


async def laid_over(
    client: Client, resource: Resource, key: Key, live: Document | None, manifest: Document
) -> Document:
    """The object as it would be: the server checks it and fills in its defaults, and keeps nothing."""
    wanted = dict(manifest.get("metadata") or {})
    if live is None:
        body = {**manifest, "metadata": {**wanted, "namespace": key.namespace}}
        return await client.create(resource, key.namespace, body, into=dict, dry_run=True)
    meta = dict(live["metadata"])
    for name in ("labels", "annotations"):
        meta[name] = {**meta.get(name, {}), **(wanted.get(name) or {})}
    body = {**live, "metadata": meta, "spec": manifest["spec"]}
    return await client.replace(resource, key, body, into=dict, dry_run=True)


class Listing(Generic[T]):
    """As much of an informer as an observer asks for, of one namespace."""

    def __init__(self, objects: Iterable[T], indexes: Indexes) -> None:
        self._objects = {one.metadata.key: one for one in objects}
        self._indexes = indexes

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

    def only(self, one: Named) -> Any:
        """As if nothing else of its kind were there."""
        return Listing([one], self._indexes)
