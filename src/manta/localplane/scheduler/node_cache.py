"""The nodes, the Pods on them and their free resources.

A Pod counts from the moment the scheduler chooses a node, before it is bound, until it has ended or
is deleted; a terminating Pod still uses its node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from manta.api.quantity import ZERO, Quantity
from manta.localplane.builtin.views import Amount, Container, Node, Pod

DEFAULT_POD_LIMIT = 110


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A Pod with its requests and host ports."""

    pod: Pod
    requests: Requests
    ports: frozenset[tuple[str, int]]


def pod_info(pod: Pod) -> PodInfo:
    return PodInfo(pod, pod_requests(pod), host_ports(pod))


@dataclass(slots=True)
class NodeInfo:
    """One node and its Pods; `free` is allocatable minus the requests of the Pods."""

    node: Node
    capacity: dict[str, int]
    free: dict[str, int]
    pods: dict[str, PodInfo] = field(default_factory=dict)
    ports: Counter[tuple[str, int]] = field(default_factory=Counter)
    siblings: Counter[str] = field(default_factory=Counter)
    """Number of Pods by the UID of their controller, for spreading."""
    with_anti_affinity: dict[str, PodInfo] = field(default_factory=dict)
    """Pods with required anti-affinity: few, and checked for every new Pod."""

    def add(self, one: PodInfo) -> None:
        uid = one.pod.metadata.uid
        if uid in self.pods:
            self.remove(uid)
        self.pods[uid] = one
        if one.pod.spec.affinity and one.pod.spec.affinity.pod_anti_affinity:
            self.with_anti_affinity[uid] = one
        self._count(one, 1)

    def remove(self, uid: str) -> None:
        if one := self.pods.pop(uid, None):
            self.with_anti_affinity.pop(uid, None)
            self._count(one, -1)

    def _count(self, one: PodInfo, sign: int) -> None:
        for name, amount in one.requests.items():
            self.free[name] = self.free.get(name, 0) - sign * amount
        for port in one.ports:
            self.ports[port] += sign
        if owner := one.pod.metadata.controller:
            self.siblings[owner.uid] += sign

    @property
    def pod_limit(self) -> int:
        return self.capacity.get("pods", DEFAULT_POD_LIMIT)


def empty_node(node: Node) -> NodeInfo:
    capacity = amounts(node.status.allocatable or node.status.capacity)
    return NodeInfo(node, capacity, dict(capacity))


class NodeCache:
    """All nodes. Pods of an unknown node are kept until the node appears."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._placed: dict[str, tuple[str, PodInfo]] = {}

    def nodes(self) -> tuple[NodeInfo, ...]:
        return tuple(self._nodes.values())

    def set_node(self, node: Node) -> None:
        info = empty_node(node)
        for name, one in self._placed.values():
            if name == node.name:
                info.add(one)
        self._nodes[node.name] = info

    def remove_node(self, name: str) -> None:
        self._nodes.pop(name, None)

    def place(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        self.release(uid)
        one = pod_info(pod)
        self._placed[uid] = (node, one)
        if info := self._nodes.get(node):
            info.add(one)

    def release(self, uid: str) -> bool:
        """Remove a Pod. Return whether it was placed on a node."""
        known = self._placed.pop(uid, None)
        if known is None:
            return False
        if info := self._nodes.get(known[0]):
            info.remove(uid)
        return True

    def node_of(self, uid: str) -> str | None:
        known = self._placed.get(uid)
        return known[0] if known else None

    def reserve(self, pod: Pod, node: str) -> None:
        """Count a Pod on the node where others are being preempted for it."""
        if info := self._nodes.get(node):
            info.add(pod_info(pod))

    def unreserve(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        if (info := self._nodes.get(node)) and self.node_of(uid) != node:
            info.remove(uid)


Requests = Mapping[str, int]


@lru_cache(maxsize=4096)
def _integer(resource: str, amount: Amount) -> int:
    """Return the amount in the unit of its resource; 0 for an invalid quantity."""
    quantity = Quantity.parse_or_none(amount) or ZERO
    return quantity.milli() if resource == "cpu" else quantity.value()


def amounts(listed: Mapping[str, Amount] | None) -> dict[str, int]:
    return {name: _integer(name, amount) for name, amount in (listed or {}).items()}


def pod_requests(pod: Pod) -> dict[str, int]:
    """Return the larger of the sum of the containers and of each init container.

    Sidecars (init containers with restartPolicy Always) keep running, so they add to both.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers or ():
        own = _container_requests(container)
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, own))
            peak = _max(peak, sidecars)
        else:
            peak = _max(peak, _sum((sidecars, own)))
    running = _sum([sidecars, *map(_container_requests, pod.spec.containers)])
    return _sum((_max(running, peak), amounts(pod.spec.overhead)))


def host_ports(pod: Pod) -> frozenset[tuple[str, int]]:
    return frozenset(
        (port.protocol, port.host_port)
        for container in pod.spec.containers
        for port in container.ports or ()
        if port.host_port
    )


def _container_requests(container: Container) -> dict[str, int]:
    if container.resources is None:
        return {}
    # The API server defaults requests to limits; do the same for Pods that it did not default.
    return amounts(container.resources.limits) | amounts(container.resources.requests)


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}
