"""The garbage collector tied to the API: it follows every kind and works by UID."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, OwnerReference, Uid
from manta.api.resources import Resource
from manta.kube.errors import NotFound
from manta.localplane.builtin.garbage_collector.graph import Entry, Graph
from manta.localplane.builtin.garbage_collector.plan import DELETE_UNCHANGED, is_settled, plan
from manta.localplane.builtin.garbage_collector.snapshot import (
    ItemSnapshot,
    Owner,
    OwnerState,
    is_deleting_in_foreground,
)
from manta.localplane.builtin.metadata_watcher.partial_metadata import PartialObjectMetadata
from manta.localplane.builtin.metadata_watcher.watcher import MetadataWatcher
from manta.reconcile.actions import Call
from manta.reconcile.events import Event
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager


class GarbageCollector(Reconciler[ItemSnapshot, Any]):
    """Keys are UIDs: `Key("", uid)`."""

    name = "garbage-collector-controller"
    workers = 16

    def __init__(self, manager: Manager, metadata_watcher: MetadataWatcher) -> None:
        self._graph = Graph()
        self._metadata_watcher = metadata_watcher
        super().__init__(manager)
        metadata_watcher.add_handler(self._changed, self._forgotten)

    def watches(self) -> Sequence[Watch[Any]]:
        return ()

    # ── changes ─────────────────────────────────────────────────────────────────────────
    def _changed(self, resource: Resource, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old)
            return
        self._graph.put(resource, new)
        if old is not None and _relevant_fields(old) == _relevant_fields(new):
            return
        if not is_settled(new) and not self._is_sound(resource, new):
            self._enqueue(new.uid)
        if is_deleting_in_foreground(new):
            self._enqueue(*self._graph.dependent_uids(new.uid))
        if old is not None:
            # Owners that wait for this object may continue.
            self._enqueue(*(ref.uid for ref in old.owner_references))

    def _gone(self, meta: ObjectMeta) -> None:
        self._graph.drop(meta.uid)
        self._enqueue(*self._graph.dependent_uids(meta.uid))
        self._enqueue(*(ref.uid for ref in meta.owner_references))

    def _forgotten(self, meta: ObjectMeta) -> None:
        self._graph.forget(meta.uid)
        self._enqueue(*self._graph.dependent_uids(meta.uid))

    def _is_sound(self, resource: Resource, meta: ObjectMeta) -> bool:
        """All owners are known to exist: the common case, which needs no reconcile."""
        if meta.deletion_timestamp is not None:
            return False
        item = Entry(resource, meta)
        return all(
            self._known_state(item, ref) is OwnerState.SOLID for ref in meta.owner_references
        )

    def _enqueue(self, *uids: Uid) -> None:
        for uid in uids:
            entry = self._graph.get(uid)
            if entry is not None and not is_settled(entry.meta):
                self.controller.enqueue(Key("", uid))

    # ── phases ──────────────────────────────────────────────────────────────────────────
    async def observe(self, key: Key) -> ItemSnapshot | None:
        await self._metadata_watcher.synced.wait()
        item = self._graph.get(Uid(key.name))
        if item is None:
            return None
        leaving = item.meta.deletion_timestamp is not None
        owners = () if leaving else await self._owners(item)
        dependents = self._graph.dependents(item.meta.uid)
        return ItemSnapshot(item, owners, dependents)

    async def _owners(self, item: Entry) -> tuple[Owner, ...]:
        refs = item.meta.owner_references
        return tuple([Owner(ref, await self._state(item, ref)) for ref in refs])

    async def _state(self, item: Entry, ref: OwnerReference) -> OwnerState:
        return self._known_state(item, ref) or await self._live_state(item, ref)

    def _known_state(self, item: Entry, ref: OwnerReference) -> OwnerState | None:
        """The state of an owner that the graph knows; None if it does not know it."""
        entry = self._graph.get(ref.uid)
        if entry is not None and entry.meta.name == ref.name and entry.resource.kind == ref.kind:
            if entry.resource.namespaced and entry.meta.namespace != item.meta.namespace:
                return OwnerState.ELSEWHERE
            waiting = is_deleting_in_foreground(entry.meta)
            return OwnerState.WAITING if waiting else OwnerState.SOLID
        return OwnerState.ABSENT if self._graph.is_absent(ref.uid) else None

    async def _live_state(self, item: Entry, ref: OwnerReference) -> OwnerState:
        """The graph does not contain this owner: ask the API server whether it exists."""
        resource = self._metadata_watcher.resource_of(ref.api_version, ref.kind)
        if resource is None:
            return OwnerState.UNKNOWN
        namespace = item.meta.namespace if resource.namespaced else ""
        try:
            found = await self.client.get(
                resource, Key(namespace, ref.name), into=PartialObjectMetadata
            )
        except NotFound:
            found = None
        if found is None or found.metadata.uid != ref.uid:
            self._graph.note_absent(ref.uid)
            return OwnerState.ABSENT
        waiting = is_deleting_in_foreground(found.metadata)
        return OwnerState.WAITING if waiting else OwnerState.SOLID

    def plan(self, snapshot: ItemSnapshot) -> Step[Any]:
        return Step(plan(snapshot))

    def subject(self, snapshot: ItemSnapshot) -> Subject:
        return Subject(snapshot.item.resource, snapshot.item.meta)

    async def call(self, snapshot: ItemSnapshot, action: Call) -> Mapping[str, Any]:
        if action.verb != DELETE_UNCHANGED:
            return await super().call(snapshot, action)
        facts = action.arguments
        await self.client.delete(
            facts["resource"],
            action.key,
            uid=facts["uid"],
            resource_version=facts["resource_version"],
            propagation=facts["propagation"],
        )
        return {}

    def status_events(self, snapshot: ItemSnapshot, _: object, __: object) -> Iterator[Event]:
        for owner in snapshot.owners:
            if owner.state is OwnerState.ELSEWHERE:
                yield _bad_reference(snapshot.item.meta.namespace, owner.ref)


def _bad_reference(namespace: str, ref: OwnerReference) -> Event:
    note = (
        f"ownerRef [{ref.api_version}/{ref.kind}, namespace: {namespace}, "
        f'name: {ref.name}, uid: {ref.uid}] does not exist in namespace "{namespace}"'
    )
    reason = "OwnerRefInvalidNamespace"
    return Event("Warning", reason, reason, note)


def _relevant_fields(meta: ObjectMeta) -> tuple[Any, ...]:
    """The fields that the collector depends on; other changes are ignored."""
    return meta.owner_references, meta.finalizers, meta.deletion_timestamp is None
