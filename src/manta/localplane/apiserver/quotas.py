"""ResourceQuotas at admission: a new or growing object must fit into every quota of its namespace.

The usage of an object is computed as the quota controller does. It is written in the same turn of the event
loop as the object, so that two writers cannot both take the last of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.quantity import Quantity
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.status_errors import StatusError, forbidden
from manta.localplane.builtin.quota.usage import Holdings, in_scope, next_status
from manta.localplane.builtin.views import Pod, Quota, QuotaStatus, Service
from manta.localplane.store.objects import Record

STORAGE = "resourcequotas"
_REQUIRED = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_ZERO = Quantity(0)
_decode_quota = msgspec.json.Decoder(Quota).decode


def charge(
    core: Core, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, *, dry_run: bool
) -> None:
    """Add the object to the usage of its quotas, except in a dry run. Raises a 403 if it does not fit."""
    resource = call.resource
    if not resource.namespaced or (old is not None and not _may_grow(call)):
        return
    quotas = core.store.select(STORAGE, obj["metadata"]["namespace"])
    if not quotas:
        return
    usage = _usage_of(resource.group_resource, obj)
    before = _usage_of(resource.group_resource, old) if old is not None else None
    charges: list[tuple[Record, dict[str, str]]] = []
    for record in quotas:
        quota = _decode_quota(record.raw)
        if not usage.pods or in_scope(quota, usage.pods[0]):
            charges.append((record, _usage_with(call, record.name, quota, (usage, before), obj)))
    if dry_run:
        return
    for record, used in charges:
        if used:
            _write(core, record, used)


def _may_grow(call: Call) -> bool:
    """Whether this write can change the usage of an existing object."""
    if call.resource.group_resource == "pods":
        return call.route.subresource == "resize"
    grows = call.resource.group_resource in ("services", "persistentvolumeclaims")
    return grows and not call.route.subresource


def _usage_of(group_resource: str, obj: dict[str, Any]) -> Holdings:
    """The usage of this object alone."""
    counts = {group_resource: 1}
    if group_resource == "pods":
        return Holdings(pods=(msgspec.convert(obj, Pod),), counts=counts)
    if group_resource == "services":
        return Holdings(services=(msgspec.convert(obj, Service),), counts=counts)
    if group_resource == "persistentvolumeclaims":
        resources = (obj.get("spec") or {}).get("resources") or {}
        return Holdings(claims=(resources.get("requests") or {},), counts=counts)
    return Holdings(counts=counts)


def _usage_with(
    call: Call,
    name: str,
    quota: Quota,
    usage: tuple[Holdings, Holdings | None],
    obj: dict[str, Any],
) -> dict[str, str]:
    """The usage of the quota with this object, which had `usage[1]` before and has `usage[0]` now.

    Raises a 403 if an amount exceeds its limit, or is limited but not stated.
    """
    hard = {key: Quantity.parse(value) for key, value in (quota.status.hard or {}).items()}
    if not hard:
        return {}
    requested = {key: one for key, one in _added(quota, *usage).items() if one and key in hard}
    if usage[0].pods:
        _require_amounts(call, name, hard, obj)
    used = _quantities(quota.status.used)
    total = {key: used.get(key, _ZERO) + amount for key, amount in requested.items()}
    over = sorted(key for key in total if requested[key] > _ZERO and total[key] > hard[key])
    if over:
        shown = [
            ",".join(f"{key}={amounts.get(key, _ZERO)}" for key in over)
            for amounts in (requested, used, hard)
        ]
        amounts = f"requested: {shown[0]}, used: {shown[1]}, limited: {shown[2]}"
        raise _denied(call, obj, f"exceeded quota: {name}, {amounts}")
    return {key: str(amount) for key, amount in total.items()}


def _added(quota: Quota, now: Holdings, before: Holdings | None) -> dict[str, Quantity]:
    """What a change of an object adds to the usage of a quota."""
    empty = Quota(metadata=quota.metadata, spec=quota.spec, status=QuotaStatus())
    added = _quantities(next_status(empty, now).used)
    removed = {} if before is None else _quantities(next_status(empty, before).used)
    return {key: added.get(key, _ZERO) - removed.get(key, _ZERO) for key in added | removed}


def _quantities(amounts: Any) -> dict[str, Quantity]:
    found = {key: Quantity.parse_or_none(value) for key, value in (amounts or {}).items()}
    return {key: value for key, value in found.items() if value is not None}


def _require_amounts(call: Call, name: str, hard: dict[str, Quantity], pod: dict[str, Any]) -> None:
    """Raise a 403 if a container does not state an amount that the quota limits."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    missing = []
    for key in sorted(hard):
        side, resource = _REQUIRED.get(key, ("", ""))
        if not side:
            continue
        without = [
            one["name"]
            for one in containers
            if resource not in ((one.get("resources") or {}).get(side) or {})
        ]
        if without:
            missing.append(f"{key} for: {','.join(without)}")
    if missing:
        raise _denied(call, pod, f"failed quota: {name}: must specify {'; '.join(missing)}")


def _denied(call: Call, obj: dict[str, Any], why: str) -> StatusError:
    resource = call.resource
    return forbidden(resource.plural, resource.group, obj["metadata"].get("name", ""), why)


def _write(core: Core, record: Record, used: dict[str, str]) -> None:
    body = record.decode()
    status = dict(body.get("status") or {})
    status["used"] = (status.get("used") or {}) | used
    core.store.put(STORAGE, record.key, body | {"status": status, "metadata": body["metadata"]})
