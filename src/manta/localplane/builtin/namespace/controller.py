"""The namespace controller: what it watches, and its phases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import NAMESPACES, Resource
from manta.kube.errors import NotFound
from manta.localplane.builtin.metadata_watcher.partial_metadata import PartialObjectMetadata
from manta.localplane.builtin.metadata_watcher.watcher import MetadataWatcher
from manta.localplane.builtin.namespace.plan import DELETE_ALL, FINALIZE, plan
from manta.localplane.builtin.namespace.snapshot import FINALIZER, NamespaceSnapshot, Remainder
from manta.localplane.builtin.namespace.status import next_status
from manta.localplane.builtin.views import Namespace, NamespaceStatus
from manta.reconcile.actions import Call
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key
from manta.runtime.manager import Manager


class NamespaceController(Reconciler[NamespaceSnapshot, NamespaceStatus]):
    name = "namespace-controller"

    def __init__(self, manager: Manager, metadata_watcher: MetadataWatcher) -> None:
        self._metadata_watcher = metadata_watcher
        super().__init__(manager)
        metadata_watcher.add_handler(self._changed)

    def watches(self) -> Sequence[Watch[Any]]:
        self._namespaces = self.manager.informer(NAMESPACES, Namespace)
        return (Watch(self._namespaces, own_key),)

    def _changed(self, resource: Resource, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        """Reconcile a terminating namespace when its last object of a kind is gone."""
        if new is not None or old is None or not resource.namespaced:
            return
        if resource in self._metadata_watcher.objects(old.namespace):
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
            await self._metadata_watcher.synced.wait()
            remaining = self._in_caches(key.name) or await self._on_server(key.name)
        return NamespaceSnapshot(namespace, remaining, self.manager.clock.now())

    def _in_caches(self, namespace: str) -> dict[Resource, Remainder]:
        return {
            resource: _remainder(objects.values())
            for resource, objects in self._metadata_watcher.objects(namespace).items()
        }

    async def _on_server(self, namespace: str) -> dict[Resource, Remainder]:
        """Ask the API server: caches may be stale, and an empty namespace is finalized."""
        left: dict[Resource, Remainder] = {}
        for resource in self._metadata_watcher.namespaced():
            try:
                listing = await self.client.list(resource, namespace, into=PartialObjectMetadata)
            except NotFound:
                continue  # the CRD was deleted
            if listing.items:
                left[resource] = _remainder(one.metadata for one in listing.items)
        return left

    def plan(self, snapshot: NamespaceSnapshot) -> Step[NamespaceStatus]:
        return Step(plan(snapshot))

    def subject(self, snapshot: NamespaceSnapshot) -> Subject:
        return Subject(NAMESPACES, snapshot.namespace.metadata, snapshot.namespace.status)

    def next_status(
        self, snapshot: NamespaceSnapshot, _: object, outcome: Outcome
    ) -> NamespaceStatus:
        return next_status(snapshot, outcome)

    async def call(self, snapshot: NamespaceSnapshot, action: Call) -> Mapping[str, Any]:
        if action.verb == DELETE_ALL:
            resource = action.arguments["resource"]
            await self.client.delete_collection(resource, action.key.namespace)
        elif action.verb == FINALIZE:
            await self._finalize(action.key)
        else:
            return await super().call(snapshot, action)
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
    finalizers = Counter(finalizer for meta in metas for finalizer in meta.finalizers)
    undeleted = sum(meta.deletion_timestamp is None for meta in metas)
    return Remainder(len(metas), undeleted, finalizers)
