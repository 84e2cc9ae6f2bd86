"""What has become of the user's objects, in a form that does not depend on names, times and chance."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from manta.api.ray import names
from manta.api.times import parse_time
from support.virtual_time import EPOCH

if TYPE_CHECKING:
    from simulation.world import World

Object = dict[str, Any]
Outcome = dict[str, Any]
INVALID = "invalid"
KEPT = "kept"
"""What a RayService, or an autoscaled cluster, keeps from before an edit; or a RayJob whose end is to come."""
HEADLESS = "headless"
INCREMENTAL = "NewClusterWithIncrementalUpgrade"
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
    "controllerrevisions.apps",
    *RAY,
)
"""Not compared as objects: they are counted, or say the same in another way."""


AWAITS_USER = ("AwaitsConsent", "NeedsRecreate")
"""Reasons of a rolling update that only the user can end. A cluster that is made from the last spec has nothing to
replace."""
_ADDRESSES = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_OF_TYPE = ("type", "publishNotReadyAddresses", "externalTrafficPolicy", "sessionAffinity")


def outcome_of(world: World) -> Outcome:
    """By kind and name of each object of the user."""
    found: Outcome = {}
    owned = _by_owner(world)
    invalid = {uid for reason, _, uid in world.events() if reason.startswith("Invalid")}
    for resource, describe in _DESCRIBED.items():
        for one in world.all(resource):
            if not one["metadata"].get("ownerReferences"):
                said = describe(world, one, owned)
                waits = _cannot_serve(resource, said) or _waits_for_person(one)
                if one["metadata"]["uid"] in invalid or waits:
                    said[INVALID] = True
                if resource == "rayservices.ray.io":
                    said[KEPT] = _kept(one)
                elif resource == "rayclusters.ray.io" and _waits_for_old_pod(one):
                    said[KEPT] = "a Pod that no node has room for"
                elif resource == "rayclusters.ray.io" and _is_autoscaled(one):
                    said[KEPT] = "own workers"
                elif resource == "rayjobs.ray.io" and _ends_later(one):
                    said[KEPT] = "its end"
                found[f"{resource} {one['metadata']['name']}"] = said
    return found


def _cannot_serve(resource: str, said: Outcome) -> bool:
    """A RayService whose present spec never becomes ready, or whose canary waits for a person or for figures: what
    served before goes on."""
    waits = not {"Ready", "Suspended"} & set(said.get("conditions") or ())
    return resource == "rayservices.ray.io" and waits


def _waits_for_person(one: Object) -> bool:
    options = (one["spec"].get("upgradeStrategy") or {}).get("canaryUpgradeOptions") or {}
    promoted = any(step.get("untilPromoted") for step in options.get("steps") or ())
    return promoted or "analysis" in options or options.get("automatic") is False


def _kept(service: Object) -> str:
    """What an edited RayService keeps of the cluster that it had: with the strategy None all of it, with an
    autoscaler the number of workers."""
    if service["metadata"].get("generation", 1) == 1:
        return ""
    if (service["spec"].get("upgradeStrategy") or {}).get("type") == "None":
        return "cluster"
    scaled = (service["spec"].get("rayClusterConfig") or {}).get("enableInTreeAutoscaling")
    return "workers" if scaled else ""


def _is_autoscaled(cluster: Object) -> bool:
    """An edited cluster whose autoscaler alone decides which workers go: `as-specified` counts the others."""
    edited = cluster["metadata"].get("generation", 1) > 1
    return edited and bool(cluster["spec"].get("enableInTreeAutoscaling"))


def _ends_later(job: Object) -> bool:
    """A RayJob that ended while the clock of its operator was ahead: the time of its end is still to come, and what is
    deleted after it waits until then, as in KubeRay and for Jobs in Kubernetes. Too late is better than too early."""
    ended = (job.get("status") or {}).get("endTime") or ""
    now = EPOCH + timedelta(seconds=asyncio.get_running_loop().time())
    return ended != "" and parse_time(ended) > now


_OF_WORKERS = ("workers", "pods")
_OF_PODS = ("state", "conditions", "workers", "pods")
_OF_CLUSTER = ("clusters", "objects", "endpoints")


def _waits_for_old_pod(cluster: Object) -> bool:
    """An edited cluster with a Pod that no node has room for. Without an upgrade strategy no edit reaches its Pods, as in
    KubeRay; the condition Blocked says what it waits for."""
    edited = cluster["metadata"].get("generation", 1) > 1
    strategy = (cluster["spec"].get("upgradeStrategy") or {}).get("type") or "None"
    conditions = cluster.get("status", {}).get("conditions", [])
    blocked = any(
        (one["type"], one["reason"]) == ("Blocked", "Unschedulable") for one in conditions
    )
    return edited and strategy == "None" and blocked


def _comparable(said: Outcome, kept: str) -> Outcome:
    """The outcome without what the object keeps."""
    said = {key: value for key, value in said.items() if key not in (KEPT, INVALID)}
    if kept == "own workers":
        said = {key: value for key, value in said.items() if key not in _OF_WORKERS}
    elif kept == "a Pod that no node has room for":
        said = {key: value for key, value in said.items() if key not in _OF_PODS}
    elif kept == "its end":
        said = {key: value for key, value in said.items() if key != "clusters"}
    elif kept == "workers":
        said["endpoints"] = bool(said["endpoints"])
        said["clusters"] = [
            {key: value for key, value in one.items() if key not in _OF_WORKERS}
            for one in said["clusters"]
        ]
    elif kept == "cluster":
        states = [one["state"] for one in said["clusters"]]
        names = sorted(said["objects"])
        said = {key: value for key, value in said.items() if key not in _OF_CLUSTER}
        said |= {"clusters": states, "objects": names}
    return said


def differences(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Where two outcomes differ, in words."""
    if isinstance(wanted, dict) and INVALID in wanted:
        return  # what is there stays as it was before the spec became invalid
    if isinstance(found, dict) and isinstance(wanted, dict):
        if KEPT in found:
            kept = found[KEPT]
            found, wanted = _comparable(found, kept), _comparable(wanted, kept)
        if found.get(HEADLESS) != wanted.get(HEADLESS):
            found, wanted = _without_type(found), _without_type(wanted)
        stays = {key for key in STAYS if key not in wanted}
        for key in sorted({*found, *wanted} - {INVALID, *stays}):
            yield from differences(found.get(key), wanted.get(key), f"{path}/{key}")
    elif found != wanted:
        yield f"{path}: {_brief(found)}, without faults {_brief(wanted)}"


STAYS = ("services <name>-headless",)
"""Objects that are made when the spec needs them, and stay when it no longer does, as in KubeRay."""


def _without_type(service: Outcome) -> Outcome:
    """Whether a Service is headless is decided when it is created, and a headless one is always of type ClusterIP."""
    spec = {key: value for key, value in service["spec"].items() if key not in _OF_TYPE}
    return {**service, "spec": spec, HEADLESS: None}


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
        "state": _state(one),
        "conditions": _conditions(status),
        "workers": [
            status.get(name, 0) for name in ("desiredWorkerReplicas", "readyWorkerReplicas")
        ],
        "pods": dict(sorted(Counter(map(_pod, pods)).items())),
        "objects": _objects(one, owned),
    }


def _state(cluster: Object) -> str:
    """As in KubeRay, a cluster that is resumed says `suspended` until all its Pods are ready."""
    state = str((cluster.get("status") or {}).get("state", ""))
    return "" if state == "suspended" and not cluster["spec"].get("suspend") else state


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
        if resource == "services":
            said[HEADLESS] = spec.get("clusterIP") == "None"
        for field in _ADDRESSES:
            spec.pop(field, None)
        ports = [{**port, "nodePort": None} for port in spec.get("ports") or ()]
        spec["ports"] = sorted(ports, key=lambda port: str(port.get("name")))
        if resource == "jobs.batch":
            said = {}
        text = json.dumps({"labels": each["metadata"].get("labels"), **said}, sort_keys=True)
        found[f"{resource} {plain(each['metadata']['name'])}"] = json.loads(plain(text))
    return found


def _conditions(status: Object) -> list[str]:
    """The types of the conditions that are true: one that never was need not be there."""
    found = [
        each["type"]
        for each in status.get("conditions") or ()
        if each["status"] == "True" and each["reason"] not in AWAITS_USER
    ]
    return sorted(one for one in found if one != "ReconcileError")


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
    incremental = (one["spec"].get("upgradeStrategy") or {}).get("type") == INCREMENTAL
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
        "clusters": [_of_service(_cluster(world, each, owned), incremental) for each in clusters],
        "objects": _without_serve(_objects(one, owned, name), incremental),
    }


def _of_service(cluster: Outcome, incremental: bool) -> Outcome:
    """The serve Service of one cluster stays with it when the upgrade strategy is no longer incremental."""
    return {**cluster, "objects": _without_serve(cluster["objects"], not incremental)}


def _without_serve(objects: Outcome, left_out: bool) -> Outcome:
    """The stable serve Service stays when the upgrade strategy becomes incremental, which needs none."""
    if not left_out:
        return objects
    return {key: one for key, one in objects.items() if not key.endswith("serve-svc")}


def _cron(world: World, one: Object, owned: Owned) -> Outcome:
    status = one.get("status") or {}
    return {"conditions": _conditions(status)}


_DESCRIBED = dict(zip(RAY, (_cluster, _job, _service, _cron), strict=True))
