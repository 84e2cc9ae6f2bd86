"""The ReplicaSet controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manta.api.meta import Key
from manta.api.resources import PODS, REPLICA_SETS
from manta.localplane.builtin.owned_pods import POD_INDEXES, adopters
from manta.localplane.builtin.replicaset.plan import plan
from manta.localplane.builtin.replicaset.snapshot import ReplicaSetSnapshot
from manta.localplane.builtin.replicaset.status import next_status
from manta.localplane.builtin.views import Pod, ReplicaSet, ReplicaSetStatus
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key, owner_keys
from manta.runtime.index import by_namespace


class ReplicaSetController(Reconciler[ReplicaSetSnapshot, ReplicaSetStatus]):
    name = "replicaset-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        self._sets = self.manager.informer(
            REPLICA_SETS, ReplicaSet, indexes={"namespace": by_namespace}
        )
        self._pods = self.manager.informer(PODS, Pod, indexes=POD_INDEXES)
        owned = owner_keys(REPLICA_SETS.kind, REPLICA_SETS.group)
        return (
            Watch(self._sets, own_key),
            Watch(self._pods, owned),
            Watch(self._pods, adopters(self._sets)),
        )

    async def observe(self, key: Key) -> ReplicaSetSnapshot | None:
        replica_set = self._sets.get(key)
        if replica_set is None:
            return None
        return ReplicaSetSnapshot(
            replica_set,
            self._pods.by("controller", replica_set.metadata.uid),
            self._pods.by("orphan", key.namespace),
            self.manager.clock.now(),
        )

    def plan(self, snapshot: ReplicaSetSnapshot) -> Step[ReplicaSetStatus]:
        return Step(plan(snapshot))

    def subject(self, snapshot: ReplicaSetSnapshot) -> Subject:
        return Subject(REPLICA_SETS, snapshot.replica_set.metadata, snapshot.replica_set.status)

    def next_status(
        self, snapshot: ReplicaSetSnapshot, _: object, outcome: Outcome
    ) -> ReplicaSetStatus:
        return next_status(snapshot, outcome)
