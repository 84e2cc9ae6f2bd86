"""The DaemonSet controller tied to the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS, Resource
from manta.localplane.builtin.daemonset.events import EVENTS
from manta.localplane.builtin.daemonset.plan import plan
from manta.localplane.builtin.daemonset.snapshot import DaemonSetSnapshot
from manta.localplane.builtin.daemonset.status import next_status
from manta.localplane.builtin.owned_pods import POD_INDEXES, controller_uid, selects
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Node, Pod
from manta.localplane.builtin.workload_views import ControllerRevision, DaemonSet
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key, owner_keys


class DaemonSetController(Builtin[DaemonSetSnapshot]):
    name = "daemonset-controller"
    events = EVENTS

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._sets = informer(
            DAEMON_SETS, DaemonSet, indexes={"namespace": lambda it: (it.metadata.namespace,)}
        )
        self._pods = informer(PODS, Pod, indexes=POD_INDEXES)
        self._nodes = informer(NODES, Node)
        self._revisions = informer(
            CONTROLLER_REVISIONS, ControllerRevision, indexes={"controller": controller_uid}
        )
        owned = owner_keys(DAEMON_SETS.kind, DAEMON_SETS.group)
        return (
            Watch(self._sets, own_key),
            Watch(self._pods, owned),
            Watch(self._pods, self._adopters),
            Watch(self._revisions, owned),
            Watch(self._nodes, self._on_node),
        )

    def _adopters(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """A Pod without a controller concerns every DaemonSet that would adopt it."""
        del old
        if new is None or new.metadata.controller is not None or not new.metadata.labels:
            return ()
        candidates = self._sets.by("namespace", new.metadata.namespace)
        return [one.metadata.key for one in candidates if selects(one, new)]

    def _on_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        """Nodes renew their status all the time; only what decides about Pods concerns us."""
        if old is not None and new is not None and _decisive(old) == _decisive(new):
            return ()
        return [one.metadata.key for one in self._sets.all()]

    async def observe(self, key: Key) -> DaemonSetSnapshot | None:
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            return None
        uid = daemon_set.metadata.uid
        return DaemonSetSnapshot(
            daemon_set,
            self._pods.by("controller", uid),
            self._pods.by("orphan", key.namespace),
            self._revisions.by("controller", uid),
            self._nodes.all(),
            self.manager.clock.now(),
        )

    def plan(self, seen: DaemonSetSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: DaemonSetSnapshot) -> tuple[Resource, ObjectMeta]:
        return DAEMON_SETS, seen.daemon_set.metadata

    def statuses(self, seen: DaemonSetSnapshot, outcome: Outcome) -> tuple[View, View]:
        del outcome
        return seen.daemon_set.status, next_status(seen)


def _decisive(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable
