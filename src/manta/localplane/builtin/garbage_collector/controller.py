"""The garbage collector tied to the API: it follows every kind and works by UID."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, OwnerReference, Uid
from manta.api.resources import Resource
from manta.kube.errors import NotFound
from manta.localplane.builtin.everything.trace import Trace
from manta.localplane.builtin.everything.watcher import Everything
from manta.localplane.builtin.garbage_collector.graph import Entry, Graph
from manta.localplane.builtin.garbage_collector.plan import DELETE_UNCHANGED, is_settled, plan
from manta.localplane.builtin.garbage_collector.snapshot import (
    ItemSnapshot,
    Owner,
    OwnerState,
    is_going_in_foreground,
)
from manta.localplane.builtin.shell import Builtin
from manta.reconcile.actions import Call
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager


class GarbageCollector(Builtin[ItemSnapshot]):
    """Keys are UIDs: `Key("", uid)`."""

    name = "garbage-collector-controller"
    workers = 16

    def __init__(self, manager: Manager, everything: Everything) -> None:
        self._graph = Graph()
        self._everything = everything
        super().__init__(manager)
        everything.add_handler(self._changed, self._forgotten)

    def watches(self) -> Sequence[Watch[Any]]:
        return ()

    # ── what happens in the world ────────────────────────────────────────────────────────
    def _changed(self, resource: Resource, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old)
            return
        self._graph.put(resource, new)
        if old is not None and _standing(old) == _standing(new):
            return
        if not is_settled(new) and not self._is_sound(resource, new):
            self._look_at(new.uid)
        if is_going_in_foreground(new):
            self._look_at(*self._graph.dependent_uids(new.uid))
        if old is not None:
            # Owners that are waiting for this one may wait no longer.
            self._look_at(*(ref.uid for ref in old.owner_references))

    def _gone(self, meta: ObjectMeta) -> None:
        self._graph.drop(meta.uid)
        self._look_at(*self._graph.dependent_uids(meta.uid))
        self._look_at(*(ref.uid for ref in meta.owner_references))

    def _forgotten(self, meta: ObjectMeta) -> None:
        self._graph.forget(meta.uid)
        self._look_at(*self._graph.dependent_uids(meta.uid))

    def _is_sound(self, resource: Resource, meta: ObjectMeta) -> bool:
        """All its owners are there for sure: the common case, which needs no round."""
        if meta.deletion_timestamp is not None:
            return False
        item = Entry(resource, meta)
        return all(
            self._known_state(item, ref) is OwnerState.SOLID for ref in meta.owner_references
        )

    def _look_at(self, *uids: Uid) -> None:
        for uid in uids:
            entry = self._graph.get(uid)
            if entry is not None and not is_settled(entry.meta):
                self.controller.enqueue(Key("", uid))

    # ── the rooms ────────────────────────────────────────────────────────────────────────
    async def observe(self, key: Key) -> ItemSnapshot | None:
        await self._everything.synced.wait()
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
        """What the graph can say of an owner; None: nothing."""
        entry = self._graph.get(ref.uid)
        if entry is not None and entry.meta.name == ref.name and entry.resource.kind == ref.kind:
            if entry.resource.namespaced and entry.meta.namespace != item.meta.namespace:
                return OwnerState.ELSEWHERE
            waiting = is_going_in_foreground(entry.meta)
            return OwnerState.WAITING if waiting else OwnerState.SOLID
        return OwnerState.ABSENT if self._graph.is_absent(ref.uid) else None

    async def _live_state(self, item: Entry, ref: OwnerReference) -> OwnerState:
        """The graph has not seen this owner: only the server itself can say that it is not there."""
        resource = self._everything.resource_of(ref.api_version, ref.kind)
        if resource is None:
            return OwnerState.UNKNOWN
        namespace = item.meta.namespace if resource.namespaced else ""
        try:
            found = await self.client.get(resource, Key(namespace, ref.name), into=Trace)
        except NotFound:
            found = None
        if found is None or found.metadata.uid != ref.uid:
            self._graph.note_absent(ref.uid)
            return OwnerState.ABSENT
        waiting = is_going_in_foreground(found.metadata)
        return OwnerState.WAITING if waiting else OwnerState.SOLID

    def plan(self, seen: ItemSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: ItemSnapshot) -> tuple[Resource, ObjectMeta]:
        return seen.item.resource, seen.item.meta

    def key_of(self, seen: ItemSnapshot) -> Key:
        return Key("", seen.item.meta.uid)

    async def call(self, action: Call) -> Mapping[str, Any]:
        if action.verb != DELETE_UNCHANGED:
            return await super().call(action)
        facts = action.arguments
        await self.client.delete(
            facts["resource"],
            action.key,
            uid=facts["uid"],
            resource_version=facts["resource_version"],
            propagation=facts["propagation"],
        )
        return {}

    async def report(self, seen: ItemSnapshot, plan: Plan, outcome: Outcome) -> bool:
        for owner in seen.owners:
            if owner.state is OwnerState.ELSEWHERE:
                self._tell_of_bad_reference(seen.item, owner.ref)
        return await super().report(seen, plan, outcome)

    def _tell_of_bad_reference(self, item: Entry, ref: OwnerReference) -> None:
        note = (
            f"ownerRef [{ref.api_version}/{ref.kind}, namespace: {item.meta.namespace}, "
            f"name: {ref.name}, uid: {ref.uid}] does not exist in namespace "
            f'"{item.meta.namespace}"'
        )
        subject = (item.resource, item.meta)
        self.tell(subject, "Warning", "OwnerRefInvalidNamespace", note)


def _standing(meta: ObjectMeta) -> tuple[Any, ...]:
    """All that the collector decides from; other changes are no reason to look."""
    return meta.owner_references, meta.finalizers, meta.deletion_timestamp is None
