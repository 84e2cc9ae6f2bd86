"""The node-lifecycle controller tied to the API: it listens to Leases and watches the clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, cast

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import LEASES, NODES, PODS, Resource
from manta.localplane.builtin.nodelifecycle.events import EVENTS, POD_EVENTS
from manta.localplane.builtin.nodelifecycle.plan import Cause, plan
from manta.localplane.builtin.nodelifecycle.snapshot import NodeSnapshot
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Lease, Node, Pod
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager

LEASE_NAMESPACE = "kube-node-lease"


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class NodeLifecycleController(Builtin[NodeSnapshot]):
    name = "node-controller"
    workers = 2
    events = EVENTS

    def __init__(self, manager: Manager) -> None:
        self._heard: dict[str, datetime] = {}
        self._gone: dict[str, datetime] = {}
        """When we noticed that a node is not there. Its kubelet may go on renewing its Lease."""
        super().__init__(manager)
        # Renewals only move a time: no round is needed for them, and there are many.
        manager.informer(LEASES, Lease).add_handler(self._renewed)

    def watches(self) -> Sequence[Watch[Any]]:
        self._nodes = self.manager.informer(NODES, Node)
        self._pods = self.manager.informer(PODS, Pod, indexes={"node": _node_of})
        return Watch(self._nodes, self._node_keys), Watch(self._pods, self._pod_keys)

    def _renewed(self, old: Lease | None, new: Lease | None) -> None:
        del old
        if new is not None and new.metadata.namespace == LEASE_NAMESPACE:
            self._heard[new.metadata.name] = self.manager.clock.now()

    def _node_keys(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        some = new if new is not None else old
        if some is None:
            return ()
        if old is None or new is None or _heartbeat(old) != _heartbeat(new):
            self._heard[some.name] = self.manager.clock.now()
        if old is not None and new is not None and _concern(old) == _concern(new):
            return ()
        return (Key("", some.name),)

    def _pod_keys(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """A Pod concerns its node when that node has something against it, or is not there."""
        if new is None or not new.spec.node_name:
            return ()
        if old is not None and old.spec.node_name and old.is_active == new.is_active:
            return ()
        node = self._nodes.get(Key("", new.spec.node_name))
        tainted = node is None or any(one.effect == "NoExecute" for one in node.spec.taints or ())
        return (Key("", new.spec.node_name),) if tainted else ()

    async def observe(self, key: Key) -> NodeSnapshot | None:
        node = self._nodes.get(key)
        pods = self._pods.by("node", key.name)
        now = self.manager.clock.now()
        if node is None and not pods:
            self._heard.pop(key.name, None)
            self._gone.pop(key.name, None)
            return None
        if node is None:
            return NodeSnapshot(key.name, None, pods, self._gone.setdefault(key.name, now), now)
        self._gone.pop(key.name, None)
        heard = self._heard.setdefault(key.name, now)
        return NodeSnapshot(key.name, node, pods, heard, now)

    def plan(self, seen: NodeSnapshot) -> Plan:
        return plan(seen)

    async def report(self, seen: NodeSnapshot, plan: Plan, outcome: Outcome) -> bool:
        pods = {pod.metadata.key: pod for pod in seen.pods}
        for done in outcome.done:
            told = POD_EVENTS.get(cast("Cause", done.action.cause))
            if told and done.key in pods:
                type_, reason, note = told
                subject = (PODS, pods[done.key].metadata)
                self.tell(subject, type_, reason, note.format(key=done.key))
        return await super().report(seen, plan, outcome)

    def subject(self, seen: NodeSnapshot) -> tuple[Resource, ObjectMeta]:
        return NODES, seen.node.metadata if seen.node else ObjectMeta(name=seen.name)


def _heartbeat(node: Node) -> str | None:
    return node.ready.last_heartbeat_time if node.ready else None


def _concern(node: Node) -> tuple[Any, ...]:
    """What a round looks at: heartbeats alone are no reason for one."""
    return node.ready.status if node.ready else None, node.spec.taints
