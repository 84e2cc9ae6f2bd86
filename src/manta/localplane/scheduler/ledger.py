"""What the nodes hold and what is left on them, kept up to date Pod by Pod.

A Pod counts from the moment it is chosen for a node (the binding is still on its way) until it
has ended or is gone; one that is terminating still uses its node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from manta.localplane.builtin.views import Node, Pod
from manta.localplane.scheduler.demand import Demand, amounts, host_ports, pod_demand

DEFAULT_POD_LIMIT = 110


@dataclass(frozen=True, slots=True)
class Tenant:
    """A Pod on a node, with what it takes from it."""

    pod: Pod
    demand: Demand
    ports: frozenset[tuple[str, int]]


def tenant(pod: Pod) -> Tenant:
    return Tenant(pod, pod_demand(pod), host_ports(pod))


@dataclass(slots=True)
class NodeLoad:
    """One node and its tenants; `free` is allocatable minus what the tenants ask for."""

    node: Node
    capacity: dict[str, int]
    free: dict[str, int]
    tenants: dict[str, Tenant] = field(default_factory=dict)
    ports: Counter[tuple[str, int]] = field(default_factory=Counter)
    siblings: Counter[str] = field(default_factory=Counter)
    """Tenants by the UID of their controller, for spreading."""
    unsociable: dict[str, Tenant] = field(default_factory=dict)
    """Tenants that keep some other Pods away: few, and asked about every newcomer."""

    def add(self, one: Tenant) -> None:
        uid = one.pod.metadata.uid
        if uid in self.tenants:
            self.remove(uid)
        self.tenants[uid] = one
        if one.pod.spec.affinity and one.pod.spec.affinity.pod_anti_affinity:
            self.unsociable[uid] = one
        self._count(one, 1)

    def remove(self, uid: str) -> None:
        if one := self.tenants.pop(uid, None):
            self.unsociable.pop(uid, None)
            self._count(one, -1)

    def _count(self, one: Tenant, sign: int) -> None:
        for name, amount in one.demand.items():
            self.free[name] = self.free.get(name, 0) - sign * amount
        for port in one.ports:
            self.ports[port] += sign
        if owner := one.pod.metadata.controller:
            self.siblings[owner.uid] += sign

    @property
    def pod_limit(self) -> int:
        return self.capacity.get("pods", DEFAULT_POD_LIMIT)


def load_of(node: Node) -> NodeLoad:
    capacity = amounts(node.status.allocatable or node.status.capacity)
    return NodeLoad(node, capacity, dict(capacity))


class Ledger:
    """All nodes. Tenants of a node that is not known (yet) are remembered for its arrival."""

    def __init__(self) -> None:
        self._loads: dict[str, NodeLoad] = {}
        self._placed: dict[str, tuple[str, Tenant]] = {}

    def loads(self) -> tuple[NodeLoad, ...]:
        return tuple(self._loads.values())

    def load(self, node: str) -> NodeLoad | None:
        return self._loads.get(node)

    def set_node(self, node: Node) -> None:
        load = load_of(node)
        for name, one in self._placed.values():
            if name == node.name:
                load.add(one)
        self._loads[node.name] = load

    def remove_node(self, name: str) -> None:
        self._loads.pop(name, None)

    def place(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        self.release(uid)
        one = tenant(pod)
        self._placed[uid] = (node, one)
        if load := self._loads.get(node):
            load.add(one)

    def release(self, uid: str) -> bool:
        """Forget a tenant; True when it held a place."""
        known = self._placed.pop(uid, None)
        if known is None:
            return False
        if load := self._loads.get(known[0]):
            load.remove(uid)
        return True

    def node_of(self, uid: str) -> str | None:
        known = self._placed.get(uid)
        return known[0] if known else None

    def reserve(self, pod: Pod, node: str) -> None:
        """Hold room for a Pod for which others are being evicted."""
        if load := self._loads.get(node):
            load.add(tenant(pod))

    def unreserve(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        if (load := self._loads.get(node)) and self.node_of(uid) != node:
            load.remove(uid)
