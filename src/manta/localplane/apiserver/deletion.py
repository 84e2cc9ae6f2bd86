"""What a DELETE does to an object (pure): remove it now, or mark it, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from manta.api.times import LONGEST_SECONDS, format_time, parse_time
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.options import DeleteOptions
from manta.localplane.apiserver.status_errors import conflict, forbidden

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

_PERMANENT = ("default", "kube-system", "kube-public")


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the object now."""

    last: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """Keep the object with a deletionTimestamp until its finalizers or grace period are over."""

    marked: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Keep:
    """The object is being deleted already; this request changes nothing."""


Decision = Remove | Mark | Keep


def check_preconditions(obj: dict[str, Any], options: DeleteOptions, resource: ApiResource) -> None:
    meta = obj["metadata"]
    name = meta["name"]
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(resource.kind, resource.group, name, why)
    version = options.resource_version
    if version is not None and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been "
            "modified"
        )
        raise conflict(resource.kind, resource.group, name, why)


def decide(
    obj: dict[str, Any], options: DeleteOptions, resource: ApiResource, now: datetime
) -> Decision:
    """What a DELETE does to this object. The given object is not changed."""
    if resource.kind == "Namespace" and resource.group == "":
        return _decide_namespace(obj, now)
    grace = _grace(obj, options, resource)
    finalizers = _finalizers(obj, options, resource)
    meta = obj["metadata"]
    if "deletionTimestamp" in meta:
        return _decide_again(obj, finalizers, grace, resource)
    if grace > 0 or finalizers:
        return Mark(_marked(obj, finalizers, now + timedelta(seconds=grace), grace, resource))
    if _is_pod(resource):
        return Remove(_marked(obj, finalizers, now, 0, resource))
    return Remove(obj)


def is_removable(obj: dict[str, Any]) -> bool:
    """Whether an update has removed the last finalizer of a deleted object."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if (obj.get("spec") or {}).get("finalizers") and obj.get("kind") == "Namespace":
        return False
    return not meta.get("deletionGracePeriodSeconds")


def _decide_again(
    obj: dict[str, Any], finalizers: list[str], grace: int, resource: ApiResource
) -> Decision:
    """A second DELETE can change the finalizers and shorten the grace period, never lengthen it."""
    meta = obj["metadata"]
    left = int(meta.get("deletionGracePeriodSeconds") or 0)
    changed = finalizers != (meta.get("finalizers") or [])
    if grace >= left and left > 0 and not changed:
        return Keep()
    shorter = min(grace, left)
    end = parse_time(meta["deletionTimestamp"]) - timedelta(seconds=left - shorter)
    if shorter == 0 and not finalizers:
        return Remove(_marked(obj, finalizers, end, 0, resource, again=True))
    if shorter == left and not changed:
        return Keep()
    return Mark(_marked(obj, finalizers, end, shorter, resource, again=True))


def _marked(
    obj: dict[str, Any],
    finalizers: list[str],
    end: datetime,
    grace: int,
    resource: ApiResource,
    *,
    again: bool = False,
) -> dict[str, Any]:
    meta = dict(obj["metadata"])
    meta["deletionTimestamp"] = format_time(end)
    meta["deletionGracePeriodSeconds"] = grace
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if resource.generation and not again:
        meta["generation"] = int(meta.get("generation") or 0) + 1
    return obj | {"metadata": meta}


def _finalizers(obj: dict[str, Any], options: DeleteOptions, resource: ApiResource) -> list[str]:
    current = list(obj["metadata"].get("finalizers") or ())
    policy = options.propagation
    if not policy:
        if FOREGROUND in current or ORPHAN in current:
            return current
        policy = resource.strategy.default_propagation
    if policy:
        current = [name for name in current if name not in (FOREGROUND, ORPHAN)]
    if policy == "Foreground":
        current.append(FOREGROUND)
    if policy == "Orphan":
        current.append(ORPHAN)
    return current


def _grace(obj: dict[str, Any], options: DeleteOptions, resource: ApiResource) -> int:
    """The grace period: only for Pods on a node, and at most what a date can be moved by."""
    if not _is_pod(resource):
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return min(options.grace_seconds, LONGEST_SECONDS) if options.grace_seconds >= 0 else 1
    period = spec.get("terminationGracePeriodSeconds")
    return 30 if period is None else min(max(0, int(period)), LONGEST_SECONDS)


def _is_pod(resource: ApiResource) -> bool:
    return resource.kind == "Pod" and resource.group == ""


def _decide_namespace(obj: dict[str, Any], now: datetime) -> Decision:
    """A Namespace waits for its content: the namespace controller removes the finalizers of its spec."""
    name = obj["metadata"]["name"]
    if name in _PERMANENT:
        raise forbidden("namespaces", "", name, "this namespace may not be deleted")
    if not (obj.get("spec") or {}).get("finalizers"):
        return Mark(_terminating(obj, now)) if obj["metadata"].get("finalizers") else Remove(obj)
    return Keep() if "deletionTimestamp" in obj["metadata"] else Mark(_terminating(obj, now))


def _terminating(obj: dict[str, Any], now: datetime) -> dict[str, Any]:
    meta = dict(obj["metadata"])
    meta.setdefault("deletionTimestamp", format_time(now))
    status = dict(obj.get("status") or {}) | {"phase": "Terminating"}
    return obj | {"metadata": meta, "status": status}
