"""Deleting, decided (pure): does the object go now, or is it only marked, and for how long?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from manta.api.times import LONGEST_SECONDS, format_time, parse_time
from manta.localplane.apiserver.options import DeleteOptions
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import conflict, forbidden

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"

_STANDING = ("default", "kube-system", "kube-public")

JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True)
class Remove:
    """The object goes now."""

    last: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """The object stays, with a deletion timestamp, until its finalizers or its time are over."""

    marked: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Keep:
    """It is being deleted already, and this request changes nothing."""


Decision = Remove | Mark | Keep


def check_preconditions(obj: dict[str, Any], options: DeleteOptions, served: Served) -> None:
    meta = obj["metadata"]
    name = meta["name"]
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(served.kind, served.group, name, why)
    asked = options.resource_version
    if asked is not None and asked != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({asked}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been "
            "modified"
        )
        raise conflict(served.kind, served.group, name, why)


def default_propagation(served: Served) -> str:
    """What an unsaid policy means: Jobs and ReplicationControllers leave their Pods behind."""
    return "Orphan" if served.kind in ("Job", "ReplicationController") else ""


def decide(obj: dict[str, Any], options: DeleteOptions, served: Served, now: datetime) -> Decision:
    """What happens to this object. The given object is not changed."""
    if served.kind == "Namespace" and served.group == "":
        return _decide_namespace(obj, now)
    grace = _grace(obj, options, served)
    finalizers = _finalizers(obj, options, served)
    meta = obj["metadata"]
    if "deletionTimestamp" in meta:
        return _decide_again(obj, finalizers, grace, served)
    if grace > 0 or finalizers:
        return Mark(_marked(obj, finalizers, now + timedelta(seconds=grace), grace, served))
    if _is_pod(served):
        return Remove(_marked(obj, finalizers, now, 0, served))
    return Remove(obj)


def ready_to_go(obj: dict[str, Any]) -> bool:
    """Whether an update has taken the last thing that kept a deleted object here."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if (obj.get("spec") or {}).get("finalizers") and obj.get("kind") == "Namespace":
        return False
    return not meta.get("deletionGracePeriodSeconds")


def _decide_again(
    obj: dict[str, Any], finalizers: list[str], grace: int, served: Served
) -> Decision:
    """A second DELETE can shorten the time and change the finalizers, but never lengthen it."""
    meta = obj["metadata"]
    left = int(meta.get("deletionGracePeriodSeconds") or 0)
    changed = finalizers != (meta.get("finalizers") or [])
    if grace >= left and left > 0 and not changed:
        return Keep()
    shorter = min(grace, left)
    end = parse_time(meta["deletionTimestamp"]) - timedelta(seconds=left - shorter)
    if shorter == 0 and not finalizers:
        return Remove(_marked(obj, finalizers, end, 0, served, again=True))
    if shorter == left and not changed:
        return Keep()
    return Mark(_marked(obj, finalizers, end, shorter, served, again=True))


def _marked(
    obj: dict[str, Any],
    finalizers: list[str],
    end: datetime,
    grace: int,
    served: Served,
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
    if served.generation and not again:
        meta["generation"] = int(meta.get("generation") or 0) + 1
    return obj | {"metadata": meta}


def _finalizers(obj: dict[str, Any], options: DeleteOptions, served: Served) -> list[str]:
    current = list(obj["metadata"].get("finalizers") or ())
    policy = options.propagation
    if not policy:
        if FOREGROUND in current or ORPHAN in current:
            return current
        policy = default_propagation(served)
    if policy:
        current = [name for name in current if name not in (FOREGROUND, ORPHAN)]
    if policy == "Foreground":
        current.append(FOREGROUND)
    if policy == "Orphan":
        current.append(ORPHAN)
    return current


def _grace(obj: dict[str, Any], options: DeleteOptions, served: Served) -> int:
    """Only Pods on a node need time to end. At most as long as a date can be moved by."""
    if not _is_pod(served):
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return min(options.grace_seconds, LONGEST_SECONDS) if options.grace_seconds >= 0 else 1
    period = spec.get("terminationGracePeriodSeconds")
    return 30 if period is None else min(max(0, int(period)), LONGEST_SECONDS)


def _is_pod(served: Served) -> bool:
    return served.kind == "Pod" and served.group == ""


def _decide_namespace(obj: dict[str, Any], now: datetime) -> Decision:
    """A Namespace waits for its content; whoever empties it takes the spec's finalizers."""
    name = obj["metadata"]["name"]
    if name in _STANDING:
        raise forbidden("namespaces", "", name, "this namespace may not be deleted")
    if not (obj.get("spec") or {}).get("finalizers"):
        return Mark(_terminating(obj, now)) if obj["metadata"].get("finalizers") else Remove(obj)
    return Keep() if "deletionTimestamp" in obj["metadata"] else Mark(_terminating(obj, now))


def _terminating(obj: dict[str, Any], now: datetime) -> dict[str, Any]:
    meta = dict(obj["metadata"])
    meta.setdefault("deletionTimestamp", format_time(now))
    status = dict(obj.get("status") or {}) | {"phase": "Terminating"}
    return obj | {"metadata": meta, "status": status}
