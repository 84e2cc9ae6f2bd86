"""The StatefulSet controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from manta.api.revisions import ControllerRevision
from manta.localplane.builtin.owned_pods import POD_INDEXES, adopters
from manta.localplane.builtin.statefulset.plan import plan
from manta.localplane.builtin.statefulset.snapshot import StatefulSetSnapshot
from manta.localplane.builtin.statefulset.status import next_status
from manta.localplane.builtin.views import Claim, Pod
from manta.localplane.builtin.workload_views import StatefulSet, StatefulSetStatus
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key, owner_keys
from manta.runtime.index import by_controller, by_namespace


class StatefulSetController(Reconciler[StatefulSetSnapshot, StatefulSetStatus]):
    name = "statefulset-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._sets = informer(STATEFUL_SETS, StatefulSet, indexes={"namespace": by_namespace})
        self._pods = informer(PODS, Pod, indexes=POD_INDEXES)
        self._revisions = informer(
            CONTROLLER_REVISIONS, ControllerRevision, indexes={"controller": by_controller}
        )
        self._claims = informer(
            PERSISTENT_VOLUME_CLAIMS, Claim, indexes={"namespace": by_namespace}
        )
        owned = owner_keys(STATEFUL_SETS.kind, STATEFUL_SETS.group)
        return (
            Watch(self._sets, own_key),
            Watch(self._pods, owned),
            Watch(self._pods, adopters(self._sets, of_deleted=True)),
            Watch(self._revisions, owned),
        )

    async def observe(self, key: Key) -> StatefulSetSnapshot | None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return None
        uid = stateful_set.metadata.uid
        return StatefulSetSnapshot(
            stateful_set,
            self._pods.by("controller", uid),
            self._pods.by("orphan", key.namespace),
            self._revisions.by("controller", uid),
            self._claims.by("namespace", key.namespace),
            self.manager.clock.now(),
        )

    def plan(self, snapshot: StatefulSetSnapshot) -> Step[StatefulSetStatus]:
        return Step(plan(snapshot))

    def subject(self, snapshot: StatefulSetSnapshot) -> Subject:
        return Subject(STATEFUL_SETS, snapshot.stateful_set.metadata, snapshot.stateful_set.status)

    def next_status(
        self, snapshot: StatefulSetSnapshot, _: object, __: object
    ) -> StatefulSetStatus:
        return next_status(snapshot)
