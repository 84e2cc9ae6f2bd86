"""How much of a quota is used. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from manta.api.quantity import ZERO, Quantity
from manta.localplane.builtin.views import Amount, Container, Pod, Quota, QuotaStatus, Service

_STANDARD = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is in the namespace of the quota."""

    pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    claims: tuple[Mapping[str, Amount], ...] = ()
    """The requests of the PersistentVolumeClaims."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Objects by `plural.group`."""


def next_status(quota: Quota, held: Holdings) -> QuotaStatus:
    """Every limited resource with its amount in use; what we cannot count is left as it is."""
    hard = quota.spec.hard or {}
    pods = [pod for pod in held.pods if not pod.is_terminal and in_scope(quota, pod)]
    used: dict[str, Amount] = {}
    for name in hard:
        amount = _used(name, pods, held)
        if amount is not None:
            used[name] = str(amount)
        elif quota.status.used and name in quota.status.used:
            used[name] = quota.status.used[name]
    return QuotaStatus(hard=dict(hard), used=used)


def _used(name: str, pods: list[Pod], held: Holdings) -> Quantity | None:
    if name in _STANDARD:
        return _sum(pods, "requests", name)
    kind, dot, resource = name.partition(".")
    if kind == "requests" and resource == "storage":
        return _total(claim.get("storage", 0) for claim in held.claims)
    if kind in ("requests", "limits") and dot:
        return _sum(pods, kind, resource)
    count = _count(name, pods, held)
    return None if count is None else Quantity.parse(count)


def _count(name: str, pods: list[Pod], held: Holdings) -> int | None:
    if name in ("pods", "count/pods"):
        return len(pods)
    if special := _SERVICES.get(name):
        return sum(map(special, held.services))
    return held.counts.get(name.removeprefix("count/"), 0)


def _node_ports(service: Service) -> int:
    exposed = service.spec.type in ("NodePort", "LoadBalancer")
    return len(service.spec.ports or ()) if exposed else 0


_SERVICES: Mapping[str, Callable[[Service], int]] = {
    "services": lambda _: 1,
    "count/services": lambda _: 1,
    "services.loadbalancers": lambda service: int(service.spec.type == "LoadBalancer"),
    "services.nodeports": _node_ports,
}


def _sum(pods: Iterable[Pod], side: str, resource: str) -> Quantity:
    """The containers together, or the greediest init container when that is more."""
    total = ZERO
    for pod in pods:
        running = _total(_asked(one, side, resource) for one in pod.spec.containers)
        inits = [_quantity(_asked(one, side, resource)) for one in pod.spec.init_containers or ()]
        total += max([running, *inits])
    return total


def _asked(container: Container, side: str, resource: str) -> Amount:
    resources = container.resources
    if resources is None:
        return 0
    listed = resources.requests if side == "requests" else resources.limits
    return (listed or {}).get(resource, 0)


def _total(amounts: Iterable[Amount]) -> Quantity:
    total = ZERO
    for amount in amounts:
        total += _quantity(amount)
    return total


def _quantity(amount: Amount) -> Quantity:
    return Quantity.parse_or_none(amount) or ZERO


def in_scope(quota: Quota, pod: Pod) -> bool:
    wanted = list(quota.spec.scopes or ())
    selector = quota.spec.scope_selector
    for expression in (selector and selector.match_expressions) or ():
        if expression.get("operator") == "Exists":
            wanted.append(expression.get("scopeName", ""))
        elif not _matches_expression(expression, pod):
            return False
    return all(_SCOPES[scope](pod) for scope in wanted if scope in _SCOPES)


def _matches_expression(expression: Mapping[str, Any], pod: Pod) -> bool:
    if expression.get("scopeName") != "PriorityClass":
        return True
    inside = pod.spec.priority_class_name in (expression.get("values") or ())
    match expression.get("operator"):
        case "In":
            return inside
        case "NotIn":
            return not inside
        case _:
            return not pod.spec.priority_class_name


def _is_best_effort(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    return not any(
        one.resources and (one.resources.requests or one.resources.limits) for one in containers
    )


_SCOPES: Mapping[str, Callable[[Pod], bool]] = {
    "Terminating": lambda pod: pod.spec.active_deadline_seconds is not None,
    "NotTerminating": lambda pod: pod.spec.active_deadline_seconds is None,
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "PriorityClass": lambda pod: bool(pod.spec.priority_class_name),
}
