"""The node-lifecycle controller: reconciles a node when it, its Pods or its heartbeat change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from manta.api.coordination import Lease
from manta.api.meta import Key, ObjectMeta
from manta.api.resources import LEASES, NODES, PODS
from manta.localplane.builtin.nodelifecycle.plan import Cause, plan
from manta.localplane.builtin.nodelifecycle.snapshot import NodeSnapshot
from manta.localplane.builtin.views import Node, Pod
from manta.localplane.kubelet import LEASE_NAMESPACE
from manta.reconcile.causes import ActionCause
from manta.reconcile.events import Event
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager
from manta.runtime.recorder import EventType, ObjectReference

_POD_EVENTS: dict[ActionCause, tuple[EventType, str, str]] = {
    Cause.EVICT: ("Normal", "TaintManagerEviction", "Marking for deletion Pod {key}"),
    Cause.POD_NOT_READY: ("Warning", "NodeNotReady", "Node is not ready"),
}
"""The Events of the Pods of a node: type, reason and note."""


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class NodeLifecycleController(Reconciler[NodeSnapshot, Any]):
    name = "node-controller"
    workers = 2

    def __init__(self, manager: Manager) -> None:
        self._last_heartbeats: dict[str, datetime] = {}
        self._missing_since: dict[str, datetime] = {}
        """When a node was first found missing. Its kubelet may still renew its Lease."""
        super().__init__(manager)
        # Renewals are many and only move a time: they need no reconcile.
        manager.informer(LEASES, Lease).add_handler(self._renewed)

    def watches(self) -> Sequence[Watch[Any]]:
        self._nodes = self.manager.informer(NODES, Node)
        self._pods = self.manager.informer(PODS, Pod, indexes={"node": _node_of})
        return Watch(self._nodes, self._node_keys), Watch(self._pods, self._pod_keys)

    def _renewed(self, old: Lease | None, new: Lease | None) -> None:
        del old
        if new is not None and new.metadata.namespace == LEASE_NAMESPACE:
            self._last_heartbeats[new.metadata.name] = self.manager.clock.now()

    def _node_keys(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        some = new if new is not None else old
        if some is None:
            return ()
        if old is None or new is None or _heartbeat(old) != _heartbeat(new):
            self._last_heartbeats[some.name] = self.manager.clock.now()
        if old is not None and new is not None and _relevant_fields(old) == _relevant_fields(new):
            return ()
        return (Key("", some.name),)

    def _pod_keys(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """A Pod concerns its node if the node has a NoExecute taint, or does not exist."""
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
            self._last_heartbeats.pop(key.name, None)
            self._missing_since.pop(key.name, None)
            return None
        if node is None:
            return NodeSnapshot(
                key.name, None, pods, self._missing_since.setdefault(key.name, now), now
            )
        self._missing_since.pop(key.name, None)
        last_heartbeat = self._last_heartbeats.setdefault(key.name, now)
        return NodeSnapshot(key.name, node, pods, last_heartbeat, now)

    def plan(self, snapshot: NodeSnapshot) -> Step[Any]:
        return Step(plan(snapshot))

    def subject(self, snapshot: NodeSnapshot) -> Subject:
        meta = snapshot.node.metadata if snapshot.node else ObjectMeta(name=snapshot.name)
        return Subject(NODES, meta)

    def status_events(self, snapshot: NodeSnapshot, _: object, outcome: Outcome) -> Iterator[Event]:
        """The Events of the Pods that were evicted or marked as not ready."""
        pods = {pod.metadata.key: pod for pod in snapshot.pods}
        for done in outcome.done:
            reasons = _POD_EVENTS.get(done.action.cause)
            if reasons and done.key in pods:
                type_, reason, note = reasons
                pod = ObjectReference.to(PODS, pods[done.key].metadata)
                yield Event(type_, reason, reason, note.format(key=done.key), pod)


def _heartbeat(node: Node) -> str | None:
    return node.ready.last_heartbeat_time if node.ready else None


def _relevant_fields(node: Node) -> tuple[Any, ...]:
    """The fields that need a reconcile; a heartbeat alone does not."""
    return node.ready.status if node.ready else None, node.spec.taints
