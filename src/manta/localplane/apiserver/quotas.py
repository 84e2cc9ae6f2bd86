"""ResourceQuotas at admission: a new or growing object must fit into every quota of its namespace.

What an object needs is counted by the same rules as the quota controller counts what is used. A
charge is written in the same turn as the object, so two writers can never share the last place.
"""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.quantity import Quantity, QuantityError
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.status_errors import Refusal, forbidden
from manta.localplane.builtin.quota.usage import Holdings, in_scope, next_status
from manta.localplane.builtin.views import Pod, Quota, QuotaStatus, Service
from manta.localplane.store.objects import Record

SHELF = "resourcequotas"
_REQUIRED = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_decode_quota = msgspec.json.Decoder(Quota).decode


def charge(
    core: Core, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, *, dry_run: bool
) -> None:
    """Refuse what does not fit; otherwise count it in, unless it is only a dry run."""
    served = call.served
    if not served.namespaced or (old is not None and not _may_grow(call)):
        return
    quotas = core.store.select(SHELF, obj["metadata"]["namespace"])
    if not quotas:
        return
    held = _held(served.group_resource, obj)
    before = _held(served.group_resource, old) if old is not None else None
    charges: list[tuple[Record, dict[str, str]]] = []
    for record in quotas:
        quota = _decode_quota(record.raw)
        if not held.pods or in_scope(quota, held.pods[0]):
            charges.append((record, _fitting(call, record.name, quota, (held, before), obj)))
    if dry_run:
        return
    for record, used in charges:
        if used:
            _write(core, record, used)


def _may_grow(call: Call) -> bool:
    """Which writes can change what an object that exists uses: the others ask no quota."""
    if call.served.group_resource == "pods":
        return call.route.subresource == "resize"
    grows = call.served.group_resource in ("services", "persistentvolumeclaims")
    return grows and not call.route.subresource


def _held(group_resource: str, obj: dict[str, Any]) -> Holdings:
    """The new object, as if nothing else were there."""
    counts = {group_resource: 1}
    if group_resource == "pods":
        return Holdings(pods=(msgspec.convert(obj, Pod),), counts=counts)
    if group_resource == "services":
        return Holdings(services=(msgspec.convert(obj, Service),), counts=counts)
    if group_resource == "persistentvolumeclaims":
        resources = (obj.get("spec") or {}).get("resources") or {}
        return Holdings(claims=(resources.get("requests") or {},), counts=counts)
    return Holdings(counts=counts)


def _fitting(
    call: Call,
    name: str,
    quota: Quota,
    held: tuple[Holdings, Holdings | None],
    obj: dict[str, Any],
) -> dict[str, str]:
    """The amounts in use once this object is in; refuses when one is over its limit.

    `held` is what the object uses, and what it used before this change.
    """
    hard = {key: Quantity.parse(value) for key, value in (quota.status.hard or {}).items()}
    if not hard:
        return {}
    limited = Quota(metadata=quota.metadata, spec=quota.spec, status=QuotaStatus())
    zero = Quantity(0)
    asked = _quantities(next_status(limited, held[0]).used)
    if held[1] is not None:
        before = _quantities(next_status(limited, held[1]).used)
        asked = {key: asked.get(key, zero) - before.get(key, zero) for key in asked | before}
    asked = {key: amount for key, amount in asked.items() if amount and key in hard}
    if held[0].pods:
        _require_amounts(call, name, hard, obj)
    used = _quantities(quota.status.used)
    over = sorted(
        key for key in asked if asked[key] > zero and used.get(key, zero) + asked[key] > hard[key]
    )
    if over:
        told = [
            ",".join(f"{key}={amounts.get(key, zero)}" for key in over)
            for amounts in (asked, used, hard)
        ]
        why = f"exceeded quota: {name}, requested: {told[0]}, used: {told[1]}, limited: {told[2]}"
        raise _refusal(call, obj, why)
    return {key: str(used.get(key, zero) + amount) for key, amount in asked.items()}


def _quantities(amounts: Any) -> dict[str, Quantity]:
    found = {}
    for key, value in (amounts or {}).items():
        try:
            found[key] = Quantity.parse(value)
        except QuantityError:
            continue
    return found


def _require_amounts(call: Call, name: str, hard: dict[str, Quantity], pod: dict[str, Any]) -> None:
    """A quota on an amount demands that every container says it."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    missing = []
    for key in sorted(hard):
        side, resource = _REQUIRED.get(key, ("", ""))
        if not side:
            continue
        silent = [
            one["name"]
            for one in containers
            if resource not in ((one.get("resources") or {}).get(side) or {})
        ]
        if silent:
            missing.append(f"{key} for: {','.join(silent)}")
    if missing:
        raise _refusal(call, pod, f"failed quota: {name}: must specify {'; '.join(missing)}")


def _refusal(call: Call, obj: dict[str, Any], why: str) -> Refusal:
    served = call.served
    return forbidden(served.plural, served.group, obj["metadata"].get("name", ""), why)


def _write(core: Core, record: Record, used: dict[str, str]) -> None:
    body = record.decode()
    status = dict(body.get("status") or {})
    status["used"] = (status.get("used") or {}) | used
    core.store.put(SHELF, record.key, body | {"status": status, "metadata": body["metadata"]})
