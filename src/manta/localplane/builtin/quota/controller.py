"""The quota controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES, Resource
from manta.localplane.builtin.metadata_watcher.watcher import MetadataWatcher
from manta.localplane.builtin.quota.usage import Holdings, next_status
from manta.localplane.builtin.views import Claim, Pod, Quota, QuotaStatus, Service
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.cache import Named
from manta.runtime.controller import Watch, own_key
from manta.runtime.index import by_namespace
from manta.runtime.manager import Manager


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    quota: Quota
    held: Holdings


class QuotaController(Reconciler[QuotaSnapshot, QuotaStatus]):
    name = "resourcequota-controller"
    workers = 2

    def __init__(self, manager: Manager, metadata_watcher: MetadataWatcher) -> None:
        self._metadata_watcher = metadata_watcher
        super().__init__(manager)
        metadata_watcher.add_handler(self._counted)

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        indexes = {"namespace": by_namespace}
        self._quotas = informer(RESOURCE_QUOTAS, Quota, indexes=indexes)
        self._pods = informer(PODS, Pod, indexes=indexes)
        self._services = informer(SERVICES, Service, indexes=indexes)
        self._claims = informer(PERSISTENT_VOLUME_CLAIMS, Claim, indexes=indexes)
        return (
            Watch(self._quotas, own_key),
            Watch(self._pods, self._pod_keys),
            Watch(self._services, self._keys),
            Watch(self._claims, self._keys),
        )

    def _keys(self, old: Named | None, new: Named | None) -> Iterable[Key]:
        some = new if new is not None else old
        return self._limiting(some.metadata.namespace) if some is not None else ()

    def _pod_keys(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """A Pod counts from its creation to its end; only a resize changes its amount."""
        if old is not None and new is not None:
            same = old.spec.containers == new.spec.containers
            if same and old.is_terminal == new.is_terminal:
                return ()
        return self._keys(old, new)

    def _counted(self, resource: Resource, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        """Objects of other kinds are only counted."""
        some = new if new is not None else old
        if (old is not None and new is not None) or some is None or not resource.namespaced:
            return
        for key in self._limiting(some.namespace):
            self.controller.enqueue(key)

    def _limiting(self, namespace: str) -> list[Key]:
        return [one.metadata.key for one in self._quotas.by("namespace", namespace)]

    async def observe(self, key: Key) -> QuotaSnapshot | None:
        quota = self._quotas.get(key)
        if quota is None:
            return None
        claims = self._claims.by("namespace", key.namespace)
        counts = {
            resource.group_resource: len(objects)
            for resource, objects in self._metadata_watcher.objects(key.namespace).items()
        }
        held = Holdings(
            self._pods.by("namespace", key.namespace),
            self._services.by("namespace", key.namespace),
            tuple(_requests(one) for one in claims),
            counts,
        )
        return QuotaSnapshot(quota, held)

    def plan(self, snapshot: QuotaSnapshot) -> Step[QuotaStatus]:
        del snapshot
        return Step()

    def subject(self, snapshot: QuotaSnapshot) -> Subject:
        return Subject(RESOURCE_QUOTAS, snapshot.quota.metadata, snapshot.quota.status)

    def next_status(self, snapshot: QuotaSnapshot, _: object, __: object) -> QuotaStatus:
        return next_status(snapshot.quota, snapshot.held)


def _requests(claim: Claim) -> dict[str, Any]:
    resources = claim.spec.resources
    return dict((resources and resources.requests) or {})
