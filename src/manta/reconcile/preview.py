"""What a reconcile would do, for `manta plan`: the planners, on objects that are read once.

Nothing is written: the API server validates an edited manifest with a dry run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import Forbidden, NotFound
from manta.reconcile.plan import NOTHING, Plan
from manta.runtime.cache import Named

T = TypeVar("T", bound=Named)
S = TypeVar("S")
Document = Mapping[str, Any]
Indexes = Mapping[str, Callable[[Any], tuple[str, ...]]]
_MAX_STATUS_WRITES = 3
"""Names are in the status before any object has them: the plan after those writes is shown."""


@dataclass(frozen=True, slots=True)
class Preview:
    effect: str
    """The headline, in one clause: `nothing changes`, `all Pods are recreated`."""
    plan: Plan = NOTHING
    violations: tuple[str, ...] = ()
    """What is invalid in the object. Then the plan is not executed."""
    changes: tuple[str, ...] = ()
    """For an edit of a live object: the fields that change, each with its old and new value."""
    remarks: tuple[str, ...] = ()
    """What the plan does not show: running Pods that stay, a rule that delays it."""
    order: tuple[str, ...] = ()
    """For a rolling update: what happens one after the other, in this and later reconciles."""


def first_plan(
    snapshot: S, plan: Callable[[S], Plan], after_status: Callable[[S], S | None]
) -> tuple[S, Plan]:
    """The first plan with actions, and its snapshot, after the status writes that precede it.

    `after_status` returns the snapshot with the new status; None when the status stays the same.
    """
    chosen = plan(snapshot)
    for _ in range(_MAX_STATUS_WRITES):
        if chosen.actions or (later := after_status(snapshot)) is None:
            break
        snapshot, chosen = later, plan(later)
    return snapshot, chosen


async def live_and_wanted(
    client: Client, resource: Resource, key: Key, manifest: Document | None
) -> tuple[Document | None, Document | None]:
    """The live object, and the object with the manifest applied, if one is given."""
    try:
        live = await client.get(resource, key)
    except NotFound:
        live = None
    if manifest is None:
        return live, live
    return live, await _dry_run(client, resource, key, live, manifest)


async def _dry_run(
    client: Client, resource: Resource, key: Key, live: Document | None, manifest: Document
) -> Document:
    """The object as the API server would store it.

    Validation is strict: the API server would silently drop fields that the schema does not have.
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
    body |= {name: value for name, value in manifest.items() if name not in live}
    return await client.replace(
        resource, key, body, into=dict, dry_run=True, field_validation="Strict"
    )


def with_finalizer(document: Document, finalizer: str) -> Document:
    """The object after its first reconcile, which only adds the finalizer."""
    meta = dict(document["metadata"])
    finalizers = meta.get("finalizers", ())
    if "deletionTimestamp" not in meta and finalizer not in finalizers:
        meta["finalizers"] = [*finalizers, finalizer]
    return {**document, "metadata": meta}


class Listing(Generic[T]):
    """The part of an informer that observers use, for one namespace."""

    def __init__(self, objects: Iterable[T], indexes: Indexes) -> None:
        self._objects = {one.metadata.key: one for one in objects}
        self._indexes = indexes
        self.has_synced = True
        self.watch_error: str | None = None

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def by(self, index: str, value: str) -> tuple[T, ...]:
        values = self._indexes[index]
        return tuple(one for one in self._objects.values() if value in values(one))


class Reader:
    """Reads one namespace. It returns Any because the result takes the place of an informer."""

    def __init__(self, client: Client, namespace: str, indexes: Indexes) -> None:
        self._client = client
        self._namespace = namespace
        self._indexes = indexes

    async def listed(self, resource: Resource, into: type[Any], labels: str = "") -> Any:
        """All objects of a kind that match the label selector."""
        found = await self._client.list(resource, self._namespace, into=into, labels=labels)
        return Listing(found.items, self._indexes)

    async def listed_if_possible(
        self, resource: Resource, into: type[Any], labels: str = ""
    ) -> Any:
        """As `listed`; a kind that the user may not list, or that does not exist, is not filled."""
        try:
            return await self.listed(resource, into, labels)
        except (Forbidden, NotFound):
            unknown: Listing[Any] = Listing((), self._indexes)
            unknown.has_synced = False
            unknown.watch_error = f"you may not list {resource.plural}"
            return unknown

    def only(self, one: Named) -> Any:
        """A listing of this object alone."""
        return Listing([one], self._indexes)
