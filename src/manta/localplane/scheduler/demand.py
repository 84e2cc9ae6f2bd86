"""What a Pod asks of a node, as whole numbers: thousandths of a CPU, bytes, pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from manta.api.quantity import Quantity, QuantityError
from manta.localplane.builtin.views import Amount, Container, Pod

Demand = Mapping[str, int]


@lru_cache(maxsize=4096)
def whole(resource: str, amount: Amount) -> int:
    """The amount in the unit of its resource. What cannot be read asks for nothing."""
    try:
        quantity = Quantity.parse(amount)
    except QuantityError:
        return 0
    return quantity.milli() if resource == "cpu" else quantity.value()


def amounts(listed: Mapping[str, Amount] | None) -> dict[str, int]:
    return {name: whole(name, amount) for name, amount in (listed or {}).items()}


def pod_demand(pod: Pod) -> dict[str, int]:
    """The larger of what the containers need together and what each init container needs alone.

    Init containers that restart always (sidecars) run on, so they add to both sides.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers or ():
        own = _container_demand(container)
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, own))
            peak = _max(peak, sidecars)
        else:
            peak = _max(peak, _sum((sidecars, own)))
    running = _sum([sidecars, *map(_container_demand, pod.spec.containers)])
    return _sum((_max(running, peak), amounts(pod.spec.overhead)))


def host_ports(pod: Pod) -> frozenset[tuple[str, int]]:
    return frozenset(
        (port.protocol, port.host_port)
        for container in pod.spec.containers
        for port in container.ports or ()
        if port.host_port
    )


def _container_demand(container: Container) -> dict[str, int]:
    if container.resources is None:
        return {}
    # The server fills requests from limits; a Pod written past it is read the same way.
    return amounts(container.resources.limits) | amounts(container.resources.requests)


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}
