"""LimitRanges at admission: what containers do not say is filled in, what is out of bounds refused.

The words are those of the real server's LimitRanger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from manta.api.quantity import Quantity
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.status_errors import forbidden

Object = dict[str, Any]
Amounts = Mapping[str, Quantity]

SHELF = "limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"
_MEMBERS = (("containers", "container"), ("initContainers", "init container"))
_NONE = Quantity(0)


# ── defaults ─────────────────────────────────────────────────────────────────────────────
def filled_in(core: Core, call: Call, obj: Object) -> Object:
    """A new Pod with the requests and limits that its namespace gives to those who say none."""
    if call.served.group_resource != "pods":
        return obj
    limits, requests = _container_defaults(core, obj["metadata"].get("namespace", ""))
    if not limits and not requests:
        return obj
    told: list[str] = []
    spec = dict(obj.get("spec") or {})
    for member, kind in _MEMBERS:
        if spec.get(member):
            spec[member] = [
                _filled_container(one, limits, requests, kind, told) for one in spec[member]
            ]
    if not told:
        return obj
    meta = dict(obj["metadata"])
    said = {_ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}"}
    meta["annotations"] = (meta.get("annotations") or {}) | said
    return obj | {"metadata": meta, "spec": spec}


def _container_defaults(core: Core, namespace: str) -> tuple[dict[str, str], dict[str, str]]:
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for _, item in _items(core, namespace):
        if item.get("type") == "Container":
            limits |= item.get("default") or {}
            requests |= item.get("defaultRequest") or {}
    return limits, requests


def _items(core: Core, namespace: str) -> Iterator[tuple[str, Object]]:
    for record in core.store.select(SHELF, namespace):
        for item in (record.decode().get("spec") or {}).get("limits") or ():
            yield record.name, item


def _filled_container(
    container: Object,
    limits: Mapping[str, str],
    requests: Mapping[str, str],
    kind: str,
    told: list[str],
) -> Object:
    resources = dict(container.get("resources") or {})
    for side, defaults in (("requests", requests), ("limits", limits)):
        said = resources.get(side) or {}
        missing = {name: amount for name, amount in defaults.items() if name not in said}
        if missing:
            resources[side] = said | missing
            listed = ", ".join(sorted(missing))
            told.append(f"{listed} {side.removesuffix('s')} for {kind} {container.get('name')}")
    return container | {"resources": resources}


# ── bounds ───────────────────────────────────────────────────────────────────────────────
def check_bounds(core: Core, call: Call, obj: Object) -> None:
    """Refuse a Pod or claim that asks for less or more than its namespace lets it."""
    check = _CHECKS.get(call.served.group_resource)
    if check is None:
        return
    by_range: dict[str, list[str]] = {}
    for name, item in _items(core, obj["metadata"].get("namespace", "")):
        by_range.setdefault(name, []).extend(check(obj, item))
    for faults in by_range.values():
        told = list(dict.fromkeys(faults))
        if told:
            why = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
            served = call.served
            raise forbidden(served.plural, served.group, obj["metadata"].get("name", ""), why)


def _pod_faults(pod: Object, item: Object) -> Iterator[str]:
    spec = pod.get("spec") or {}
    containers = list(spec.get("containers") or ())
    first = list(spec.get("initContainers") or ())
    if item.get("type") == "Container":
        for container in containers + first:
            requests, limits = _resources(container)
            yield from _bound_faults(item, "Container", requests, limits)
    elif item.get("type") == "Pod":
        yield from _bound_faults(item, "Pod", *_whole(containers, first))


def _whole(containers: list[Object], first: list[Object]) -> tuple[Amounts, Amounts]:
    """A Pod needs what its containers need together, or what one of the first ones needs."""
    sides: list[dict[str, Quantity]] = []
    for side in (0, 1):
        total: dict[str, Quantity] = {}
        for container in containers:
            for name, amount in _resources(container)[side].items():
                total[name] = total.get(name, _NONE) + amount
        for container in first:
            for name, amount in _resources(container)[side].items():
                total[name] = max(total.get(name, _NONE), amount)
        sides.append(total)
    return sides[0], sides[1]


def _claim_faults(claim: Object, item: Object) -> Iterator[str]:
    if item.get("type") != "PersistentVolumeClaim":
        return
    requests, _ = _resources(claim.get("spec") or {})
    kind = "PersistentVolumeClaim"
    for name, enforced in _amounts(item.get("min")).items():
        yield from _less(name, kind, enforced, requests, {})
    for name, enforced in _amounts(item.get("max")).items():
        start = f"maximum {name} usage per {kind} is {enforced}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif requests[name] > enforced:
            yield f"{start}, but request is {requests[name]}"


def _resources(holder: Object) -> tuple[Amounts, Amounts]:
    resources = holder.get("resources") or {}
    return _amounts(resources.get("requests")), _amounts(resources.get("limits"))


def _amounts(found: Mapping[str, Any] | None) -> Amounts:
    return {name: Quantity.parse(text) for name, text in (found or {}).items()}


def _bound_faults(item: Object, kind: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, enforced in _amounts(item.get("min")).items():
        yield from _less(name, kind, enforced, requests, limits)
    for name, enforced in _amounts(item.get("max")).items():
        yield from _more(name, kind, enforced, requests, limits)
    for name, enforced in _amounts(item.get("maxLimitRequestRatio")).items():
        yield from _too_wide(name, kind, enforced, requests, limits)


def _less(
    name: str, kind: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {enforced}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif requests[name] < enforced:
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and limits[name] < enforced:
        yield f"{start}, but limit is {limits[name]}"


def _more(
    name: str, kind: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {enforced}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif limits[name] > enforced:
        yield f"{start}, but limit is {limits[name]}"
    elif name in requests and requests[name] > enforced:
        yield f"{start}, but request is {requests[name]}"


def _too_wide(
    name: str, kind: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {enforced}, but"
    request, limit = requests.get(name, _NONE), limits.get(name, _NONE)
    if not request:
        yield f"{start} no request is specified or request is 0"
    elif not limit:
        yield f"{start} no limit is specified or limit is 0"
    elif limit.nano / request.nano > enforced.nano / 10**9:
        yield f"{start} provided ratio is {limit.nano / request.nano:f}"


_CHECKS: Mapping[str, Callable[[Object, Object], Iterator[str]]] = {
    "pods": _pod_faults,
    "persistentvolumeclaims": _claim_faults,
}
