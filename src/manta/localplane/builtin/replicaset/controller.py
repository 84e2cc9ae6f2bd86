"""The ReplicaSet controller tied to the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import PODS, REPLICA_SETS, Resource
from manta.localplane.builtin.owned_pods import POD_INDEXES, selects
from manta.localplane.builtin.replicaset.events import EVENTS
from manta.localplane.builtin.replicaset.plan import plan
from manta.localplane.builtin.replicaset.snapshot import ReplicaSetSnapshot
from manta.localplane.builtin.replicaset.status import next_status
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Pod, ReplicaSet
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key, owner_keys


class ReplicaSetController(Builtin[ReplicaSetSnapshot]):
    name = "replicaset-controller"
    events = EVENTS

    def watches(self) -> Sequence[Watch[Any]]:
        self._sets = self.manager.informer(
            REPLICA_SETS, ReplicaSet, indexes={"namespace": lambda it: (it.metadata.namespace,)}
        )
        self._pods = self.manager.informer(PODS, Pod, indexes=POD_INDEXES)
        owned = owner_keys(REPLICA_SETS.kind, REPLICA_SETS.group)
        return (
            Watch(self._sets, own_key),
            Watch(self._pods, owned),
            Watch(self._pods, self._adopters),
        )

    def _adopters(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """A Pod without a controller concerns every ReplicaSet that would take it."""
        del old
        if new is None or new.metadata.controller is not None or not new.metadata.labels:
            return ()
        candidates = self._sets.by("namespace", new.metadata.namespace)
        return [one.metadata.key for one in candidates if selects(one, new)]

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

    def plan(self, seen: ReplicaSetSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: ReplicaSetSnapshot) -> tuple[Resource, ObjectMeta]:
        return REPLICA_SETS, seen.replica_set.metadata

    def statuses(self, seen: ReplicaSetSnapshot, outcome: Outcome) -> tuple[View, View]:
        return seen.replica_set.status, next_status(seen, outcome)
