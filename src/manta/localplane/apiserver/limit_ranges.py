"""LimitRange admission: sets defaults of containers, and refuses resources out of bounds.

The messages are those of the LimitRanger plugin of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from manta.api.quantity import Quantity
from manta.api.well_known import ANNOTATION_LIMIT_RANGER
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.status_errors import forbidden

Object = dict[str, Any]
Amounts = Mapping[str, Quantity]

STORAGE = "limitranges"
_MEMBERS = (("containers", "container"), ("initContainers", "init container"))
_NONE = Quantity(0)


# ── defaults ─────────────────────────────────────────────────────────────────────────────
def with_default_resources(core: Core, call: Call, obj: Object) -> Object:
    """Return a new Pod with the default requests and limits of its namespace."""
    if call.resource.group_resource != "pods":
        return obj
    limits, requests = _container_defaults(core, obj["metadata"].get("namespace", ""))
    if not limits and not requests:
        return obj
    set_fields: list[str] = []
    spec = dict(obj.get("spec") or {})
    for member, kind in _MEMBERS:
        if spec.get(member):
            spec[member] = [
                _filled_container(one, limits, requests, kind, set_fields) for one in spec[member]
            ]
    if not set_fields:
        return obj
    meta = dict(obj["metadata"])
    annotation = {ANNOTATION_LIMIT_RANGER: f"LimitRanger plugin set: {'; '.join(set_fields)}"}
    meta["annotations"] = (meta.get("annotations") or {}) | annotation
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
    for record in core.store.select(STORAGE, namespace):
        for item in (record.decode().get("spec") or {}).get("limits") or ():
            yield record.name, item


def _filled_container(
    container: Object,
    limits: Mapping[str, str],
    requests: Mapping[str, str],
    kind: str,
    set_fields: list[str],
) -> Object:
    resources = dict(container.get("resources") or {})
    for side, defaults in (("requests", requests), ("limits", limits)):
        given = resources.get(side) or {}
        missing = {name: amount for name, amount in defaults.items() if name not in given}
        if missing:
            resources[side] = given | missing
            listed = ", ".join(sorted(missing))
            set_fields.append(
                f"{listed} {side.removesuffix('s')} for {kind} {container.get('name')}"
            )
    return container | {"resources": resources}


# ── bounds ───────────────────────────────────────────────────────────────────────────────
def check_bounds(core: Core, call: Call, obj: Object) -> None:
    """Raises StatusError (403) for a Pod or claim outside the bounds of its namespace."""
    check = _CHECKS.get(call.resource.group_resource)
    if check is None:
        return
    by_range: dict[str, list[str]] = {}
    for name, item in _items(core, obj["metadata"].get("namespace", "")):
        by_range.setdefault(name, []).extend(check(obj, item))
    for faults in by_range.values():
        unique = list(dict.fromkeys(faults))
        if unique:
            why = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
            resource = call.resource
            raise forbidden(resource.plural, resource.group, obj["metadata"].get("name", ""), why)


def _pod_faults(pod: Object, item: Object) -> Iterator[str]:
    spec = pod.get("spec") or {}
    containers = list(spec.get("containers") or ())
    init = list(spec.get("initContainers") or ())
    if item.get("type") == "Container":
        for container in containers + init:
            requests, limits = _resources(container)
            yield from _bound_faults(item, "Container", requests, limits)
    elif item.get("type") == "Pod":
        yield from _bound_faults(item, "Pod", *_pod_resources(containers, init))


def _pod_resources(containers: list[Object], init: list[Object]) -> tuple[Amounts, Amounts]:
    """Return requests and limits of a Pod: the sum of its containers, or the largest init container."""
    sides: list[dict[str, Quantity]] = []
    for side in (0, 1):
        total: dict[str, Quantity] = {}
        for container in containers:
            for name, amount in _resources(container)[side].items():
                total[name] = total.get(name, _NONE) + amount
        for container in init:
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
        yield from _below_minimum(name, kind, enforced, requests, {})
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
        yield from _below_minimum(name, kind, enforced, requests, limits)
    for name, enforced in _amounts(item.get("max")).items():
        yield from _above_maximum(name, kind, enforced, requests, limits)
    for name, enforced in _amounts(item.get("maxLimitRequestRatio")).items():
        yield from _above_ratio(name, kind, enforced, requests, limits)


def _below_minimum(
    name: str, kind: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {enforced}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif requests[name] < enforced:
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and limits[name] < enforced:
        yield f"{start}, but limit is {limits[name]}"


def _above_maximum(
    name: str, kind: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {enforced}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif limits[name] > enforced:
        yield f"{start}, but limit is {limits[name]}"
    elif name in requests and requests[name] > enforced:
        yield f"{start}, but request is {requests[name]}"


def _above_ratio(
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
