"""The StatefulSet controller tied to the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from manta.localplane.builtin.owned_pods import POD_INDEXES, controller_uid, selects
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.statefulset.events import EVENTS
from manta.localplane.builtin.statefulset.plan import plan
from manta.localplane.builtin.statefulset.snapshot import StatefulSetSnapshot
from manta.localplane.builtin.statefulset.status import next_status
from manta.localplane.builtin.views import Claim, Pod
from manta.localplane.builtin.workload_views import ControllerRevision, StatefulSet
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key, owner_keys


def _namespace(one: Claim | StatefulSet) -> tuple[str, ...]:
    return (one.metadata.namespace,)


class StatefulSetController(Builtin[StatefulSetSnapshot]):
    name = "statefulset-controller"
    events = EVENTS

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._sets = informer(STATEFUL_SETS, StatefulSet, indexes={"namespace": _namespace})
        self._pods = informer(PODS, Pod, indexes=POD_INDEXES)
        self._revisions = informer(
            CONTROLLER_REVISIONS, ControllerRevision, indexes={"controller": controller_uid}
        )
        self._claims = informer(PERSISTENT_VOLUME_CLAIMS, Claim, indexes={"namespace": _namespace})
        owned = owner_keys(STATEFUL_SETS.kind, STATEFUL_SETS.group)
        return (
            Watch(self._sets, own_key),
            Watch(self._pods, owned),
            Watch(self._pods, self._adopters),
            Watch(self._revisions, owned),
        )

    def _adopters(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """A Pod without a controller, or one that is gone, may concern every set that selects it:
        its name may be the one that a replica needs."""
        pod = new if new is not None else old
        if pod is None or pod.metadata.controller is not None or not pod.metadata.labels:
            return ()
        candidates = self._sets.by("namespace", pod.metadata.namespace)
        return [one.metadata.key for one in candidates if selects(one, pod)]

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

    def plan(self, seen: StatefulSetSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: StatefulSetSnapshot) -> tuple[Resource, ObjectMeta]:
        return STATEFUL_SETS, seen.stateful_set.metadata

    def statuses(self, seen: StatefulSetSnapshot, outcome: Outcome) -> tuple[View, View]:
        del outcome
        return seen.stateful_set.status, next_status(seen)
