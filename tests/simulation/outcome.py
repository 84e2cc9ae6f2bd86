"""What has become of the user's objects, in a form that does not depend on names, times and chance."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from manta.api.ray import names

if TYPE_CHECKING:
    from simulation.world import World

Object = dict[str, Any]
Outcome = dict[str, Any]
INVALID = "invalid"
KEPT = "kept"
"""The user has asked for what was there before an edit: the edit alone says nothing."""
RAY = ("rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io", "raycronjobs.ray.io")
IGNORED = (
    "events.events.k8s.io",
    "events",
    "pods",
    "endpointslices.discovery.k8s.io",
    "endpoints",
    "secrets",
    "leases.coordination.k8s.io",
    "persistentvolumeclaims",
    *RAY,
)
"""Not compared as objects: they are counted, or say the same in another way."""


_FIXED_AT_CREATION = (
    "clusterIP",
    "clusterIPs",
    "healthCheckNodePort",
    "publishNotReadyAddresses",
)
"""Of a Service: whether it is headless is decided when it is created; what goes with that stays too."""


def outcome_of(world: World, *, jobs_may_fail: bool) -> Outcome:
    """By kind and name of each object of the user. `jobs_may_fail`: faults may have ended Ray jobs, so it only
    counts that they came to an end. A job that waits without faults (for a user, or for a cluster that was
    deleted meanwhile) may have failed before."""
    found: Outcome = {}
    owned = _by_owner(world)
    invalid = {uid for reason, _, uid in world.events() if reason.startswith("Invalid")}
    for resource, describe in _DESCRIBED.items():
        for one in world.all(resource):
            if not one["metadata"].get("ownerReferences"):
                said = describe(world, one, owned)
                if resource == "rayjobs.ray.io" and jobs_may_fail:
                    said = {"ended": True} if _has_ended(one) else {INVALID: True}
                if _keeps_old_spec(resource, one):
                    said = {KEPT: True}
                if one["metadata"]["uid"] in invalid or _cannot_serve(resource, said):
                    said |= {INVALID: True}
                found[f"{resource} {one['metadata']['name']}"] = said
    return found


def _cannot_serve(resource: str, said: Outcome) -> bool:
    """A RayService whose present spec never becomes ready: what served before goes on."""
    waits = not {"Ready", "Suspended"} & set(said.get("conditions") or ())
    return resource == "rayservices.ray.io" and waits


def _keeps_old_spec(resource: str, one: Object) -> bool:
    """An edited RayService that must not be upgraded, or whose replicas are the autoscaler's; and a suspended cluster
    whose field was removed: only `suspend: false` resumes it, as in KubeRay."""
    if one["metadata"].get("generation", 1) == 1:
        return False
    if resource == "rayclusters.ray.io":
        return "RayClusterSuspended" in _conditions(one.get("status") or {}) and (
            one["spec"].get("suspend") is None
        )
    scaled = (one["spec"].get("rayClusterConfig") or {}).get("enableInTreeAutoscaling")
    kind = (one["spec"].get("upgradeStrategy") or {}).get("type")
    return resource == "rayservices.ray.io" and (kind == "None" or bool(scaled))


def differences(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Where two outcomes differ, in words."""
    if isinstance(wanted, dict) and INVALID in wanted:
        return  # what is there stays as it was before the spec became invalid
    if isinstance(found, dict) and KEPT in found:
        return
    if isinstance(found, dict) and isinstance(wanted, dict):
        found = {key: value for key, value in found.items() if key != INVALID}
        for key in sorted({*found, *wanted}):
            yield from differences(found.get(key), wanted.get(key), f"{path}/{key}")
    elif found != wanted:
        yield f"{path}: {_brief(found)}, without faults {_brief(wanted)}"


def _brief(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) < 300 else text[:300] + "..."


Owned = dict[str, list[tuple[str, Object]]]


def _by_owner(world: World) -> Owned:
    owned: Owned = {}
    for resource in sorted(world.live):
        for one in world.all(resource):
            for owner in one["metadata"].get("ownerReferences") or ():
                owned.setdefault(owner["uid"], []).append((resource, one))
    return owned


def _cluster(world: World, one: Object, owned: Owned) -> Outcome:
    status = one.get("status") or {}
    pods = [found for kind, found in owned.get(one["metadata"]["uid"], ()) if kind == "pods"]
    return {
        "deleting": bool(one["metadata"].get("deletionTimestamp")),
        "state": status.get("state", ""),
        "conditions": _conditions(status),
        "workers": [
            status.get(name, 0) for name in ("desiredWorkerReplicas", "readyWorkerReplicas")
        ],
        "pods": dict(sorted(Counter(map(_pod, pods)).items())),
        "objects": _objects(one, owned),
    }


def _pod(pod: Object) -> str:
    labels = pod["metadata"].get("labels") or {}
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in (pod.get("status") or {}).get("conditions") or ()
    )
    going = bool(pod["metadata"].get("deletionTimestamp"))
    return (
        f"{labels.get(names.LABEL_GROUP, '')} {'ready' if ready else 'not ready'}{' going' * going}"
    )


def _objects(one: Object, owned: Owned, active: str = "") -> Outcome:
    """The other objects of an owner, without what the server or chance adds."""
    found = {}
    own = one["metadata"]["name"]

    def plain(text: str) -> str:
        text = text.replace(active, "<active>") if active else text
        return text.replace(own, "<name>")

    for resource, each in owned.get(one["metadata"]["uid"], ()):
        if resource in IGNORED:
            continue
        said = {key: value for key, value in each.items() if key not in ("metadata", "status")}
        spec = said["spec"] = dict(said.get("spec") or {})
        for field in _FIXED_AT_CREATION:
            spec.pop(field, None)
        ports = [{**port, "nodePort": None} for port in spec.get("ports") or ()]
        spec["ports"] = sorted(ports, key=lambda port: str(port.get("name")))
        if resource == "jobs.batch":
            said = {}
        text = json.dumps({"labels": each["metadata"].get("labels"), **said}, sort_keys=True)
        found[f"{resource} {plain(each['metadata']['name'])}"] = plain(text)
    return found


def _conditions(status: Object) -> list[str]:
    """The types of the conditions that are true: one that never was need not be there."""
    found = [each["type"] for each in status.get("conditions") or () if each["status"] == "True"]
    return sorted(one for one in found if one != "ReconcileError")


def _has_ended(one: Object) -> bool:
    status = one.get("status") or {}
    return status.get("jobDeploymentStatus") in ("Complete", "Failed", "Suspended")


def _job(world: World, one: Object, owned: Owned) -> Outcome:
    status = one.get("status") or {}
    children = owned.get(one["metadata"]["uid"], ())
    return {
        "deployment": status.get("jobDeploymentStatus", ""),
        "job": status.get("jobStatus", ""),
        "succeeded": status.get("succeeded", 0),
        "failed": status.get("failed", 0),
        "reason": status.get("reason", ""),
        "clusters": sum(1 for kind, _ in children if kind == "rayclusters.ray.io"),
    }


def _service(world: World, one: Object, owned: Owned) -> Outcome:
    status = one.get("status") or {}
    active = status.get("activeServiceStatus") or {}
    name = active.get("rayClusterName", "")
    clusters = [
        each for kind, each in owned.get(one["metadata"]["uid"], ()) if kind == "rayclusters.ray.io"
    ]
    return {
        "conditions": _conditions(status),
        "state": status.get("serviceStatus", ""),
        "endpoints": status.get("numServeEndpoints", 0),
        "applications": {
            key: value.get("status")
            for key, value in (active.get("applicationStatuses") or {}).items()
        },
        "pending": bool((status.get("pendingServiceStatus") or {}).get("rayClusterName")),
        "clusters": [_cluster(world, each, owned) for each in clusters],
        "objects": _objects(one, owned, name),
    }


def _cron(world: World, one: Object, owned: Owned) -> Outcome:
    status = one.get("status") or {}
    return {"conditions": _conditions(status)}


_DESCRIBED = dict(zip(RAY, (_cluster, _job, _service, _cron), strict=True))
