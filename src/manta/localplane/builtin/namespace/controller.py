"""The namespace controller tied to the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import NAMESPACES, Resource
from manta.kube.errors import NotFound
from manta.localplane.builtin.everything.trace import Trace
from manta.localplane.builtin.everything.watcher import Everything
from manta.localplane.builtin.namespace.plan import DELETE_ALL, FINALIZE, plan
from manta.localplane.builtin.namespace.snapshot import FINALIZER, NamespaceSnapshot, Remainder
from manta.localplane.builtin.namespace.status import next_status
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Namespace
from manta.reconcile.actions import Call
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key
from manta.runtime.manager import Manager


class NamespaceController(Builtin[NamespaceSnapshot]):
    name = "namespace-controller"

    def __init__(self, manager: Manager, everything: Everything) -> None:
        self._everything = everything
        super().__init__(manager)
        everything.add_handler(self._changed)

    def watches(self) -> Sequence[Watch[Any]]:
        self._namespaces = self.manager.informer(NAMESPACES, Namespace)
        return (Watch(self._namespaces, own_key),)

    def _changed(self, resource: Resource, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        """The last object of a kind left a namespace: perhaps one that waits for just that."""
        if new is not None or old is None or not resource.namespaced:
            return
        if resource in self._everything.objects(old.namespace):
            return
        namespace = self._namespaces.get(Key("", old.namespace))
        if namespace is not None and namespace.metadata.deletion_timestamp:
            self.controller.enqueue(namespace.metadata.key)

    async def observe(self, key: Key) -> NamespaceSnapshot | None:
        namespace = self._namespaces.get(key)
        if namespace is None:
            return None
        remaining: dict[Resource, Remainder] = {}
        if namespace.metadata.deletion_timestamp:
            await self._everything.synced.wait()
            remaining = self._known(key.name) or await self._listed(key.name)
        return NamespaceSnapshot(namespace, remaining, self.manager.clock.now())

    def _known(self, namespace: str) -> dict[Resource, Remainder]:
        """What the caches say is left."""
        return {
            resource: _remainder(objects.values())
            for resource, objects in self._everything.objects(namespace).items()
        }

    async def _listed(self, namespace: str) -> dict[Resource, Remainder]:
        """Before the last step the server itself is asked: a cache may be a moment behind."""
        left: dict[Resource, Remainder] = {}
        for resource in self._everything.namespaced():
            try:
                listing = await self.client.list(resource, namespace, into=Trace)
            except NotFound:
                continue  # the kind itself is gone
            if listing.items:
                left[resource] = _remainder(one.metadata for one in listing.items)
        return left

    def plan(self, seen: NamespaceSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: NamespaceSnapshot) -> tuple[Resource, ObjectMeta]:
        return NAMESPACES, seen.namespace.metadata

    def statuses(self, seen: NamespaceSnapshot, outcome: Outcome) -> tuple[View, View]:
        return seen.namespace.status, next_status(seen, outcome)

    async def call(self, action: Call) -> Mapping[str, Any]:
        if action.verb == DELETE_ALL:
            resource = action.arguments["resource"]
            await self.client.delete_collection(resource, action.key.namespace)
        elif action.verb == FINALIZE:
            await self._finalize(action.key)
        else:
            return await super().call(action)
        return {}

    async def _finalize(self, key: Key) -> None:
        try:
            body: dict[str, Any] = await self.client.get(NAMESPACES, key)
        except NotFound:
            return
        spec = body.setdefault("spec", {})
        spec["finalizers"] = [one for one in spec.get("finalizers", ()) if one != FINALIZER]
        await self.client.replace(NAMESPACES, key, body, subresource="finalize")


def _remainder(metas: Iterable[ObjectMeta]) -> Remainder:
    metas = tuple(metas)
    held = Counter(finalizer for meta in metas for finalizer in meta.finalizers)
    untouched = sum(meta.deletion_timestamp is None for meta in metas)
    return Remainder(len(metas), untouched, held)
