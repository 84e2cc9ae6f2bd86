"""The DaemonSet controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from manta.api.revisions import ControllerRevision
from manta.localplane.builtin.daemonset.plan import plan
from manta.localplane.builtin.daemonset.snapshot import DaemonSetSnapshot
from manta.localplane.builtin.daemonset.status import next_status
from manta.localplane.builtin.owned_pods import POD_INDEXES, adopters
from manta.localplane.builtin.views import Node, Pod
from manta.localplane.builtin.workload_views import DaemonSet, DaemonSetStatus
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key, owner_keys
from manta.runtime.index import by_controller, by_namespace


class DaemonSetController(Reconciler[DaemonSetSnapshot, DaemonSetStatus]):
    name = "daemonset-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._sets = informer(DAEMON_SETS, DaemonSet, indexes={"namespace": by_namespace})
        self._pods = informer(PODS, Pod, indexes=POD_INDEXES)
        self._nodes = informer(NODES, Node)
        self._revisions = informer(
            CONTROLLER_REVISIONS, ControllerRevision, indexes={"controller": by_controller}
        )
        owned = owner_keys(DAEMON_SETS.kind, DAEMON_SETS.group)
        return (
            Watch(self._sets, own_key),
            Watch(self._pods, owned),
            Watch(self._pods, adopters(self._sets)),
            Watch(self._revisions, owned),
            Watch(self._nodes, self._on_node),
        )

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

    def plan(self, snapshot: DaemonSetSnapshot) -> Step[DaemonSetStatus]:
        return Step(plan(snapshot))

    def subject(self, snapshot: DaemonSetSnapshot) -> Subject:
        return Subject(DAEMON_SETS, snapshot.daemon_set.metadata, snapshot.daemon_set.status)

    def next_status(self, snapshot: DaemonSetSnapshot, _: object, __: object) -> DaemonSetStatus:
        return next_status(snapshot)


def _decisive(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable
