"""Plots in which an admission webhook or a dashboard refuses the very write that the operator needs next.

A refusal names the resource and the verb, the fields that make the operator want it, and the step that makes the
operator send it. A create needs no step: the object itself asks for it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from manta.api.ray import names
from simulation.specs import a_template
from simulation.story import Step

Object = dict[str, Any]
Then = Callable[[Random, Object, float], list[Step]]
REDIS = {"redisAddress": "redis:6379"}
INCREMENTAL = {
    "type": "NewClusterWithIncrementalUpgrade",
    "clusterUpgradeOptions": {
        "maxSurgePercent": 50,
        "stepSizePercent": 50,
        "intervalSeconds": 5,
        "gatewayClassName": "manta",
    },
}


def named(found: Object) -> Object:
    return {"kind": found["kind"], "name": found["metadata"]["name"]}


def edit(found: Object, at: float, spec: Object) -> Step:
    return Step(at=round(at, 2), do="edit", args={**named(found), "spec": spec})


def new_image(random: Random) -> Object:
    return {"headGroupSpec": {"template": a_template(random)}}


# ── what makes the operator write ────────────────────────────────────────────────────────


def _nothing(random: Random, found: Object, at: float) -> list[Step]:
    return []


def _drifts(kind: str) -> Then:
    def then(random: Random, found: Object, at: float) -> list[Step]:
        args = {"kind": kind, "number": random.randrange(2)}
        return [Step(at=round(at, 2), do="drift", args=args)]

    return then


def _edited(*specs: Object) -> Then:
    """One of these edits."""
    return lambda random, found, at: [edit(found, at, copy.deepcopy(random.choice(specs)))]


def _deleted(random: Random, found: Object, at: float) -> list[Step]:
    return [Step(at=round(at, 2), do="delete", args=named(found))]


def _unprotected(random: Random, found: Object, at: float) -> list[Step]:
    args = {**named(found), "annotations": {names.ANNOTATION_PROTECT_HEAD: None}}
    return [Step(at=round(at, 2), do="annotate", args=args)]


def _groups(**change: Any) -> Then:
    """Every worker group changes so."""

    def then(random: Random, found: Object, at: float) -> list[Step]:
        of_service = found["kind"] == "RayService"
        spec = found["spec"]["rayClusterConfig"] if of_service else found["spec"]
        groups = [{**group, **change} for group in spec.get("workerGroupSpecs") or ()]
        changed: Object = {"workerGroupSpecs": groups}
        return [edit(found, at, {"rayClusterConfig": changed} if of_service else changed)]

    return then


def _head_ends(random: Random, found: Object, at: float) -> list[Step]:
    return [Step(at=round(at, 2), do="evict", args={"role": "head", "number": 0})]


def _worker_ends(random: Random, found: Object, at: float) -> list[Step]:
    return [Step(at=round(at, 2), do="evict", args={"role": "worker", "number": 0})]


def _upgraded(random: Random, found: Object, at: float) -> list[Step]:
    return [edit(found, at, {"rayClusterConfig": new_image(random)})]


# ── the tables ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Refusal:
    plural: str
    verb: str
    fields: Object = field(default_factory=dict)
    then: Then = _nothing
    annotations: Object = field(default_factory=dict)


_AUTOSCALED: Object = {"enableInTreeAutoscaling": True}
_INGRESS: Object = {"headGroupSpec": {"enableIngress": True}}
_POLICY: Object = {"networkPolicy": {"mode": "DenyAll"}}
_ROLLED: Object = {"upgradeStrategy": {"type": "RollingUpdate", "rollingUpdate": {}}}
_CLAIM: Object = {"backend": "rocksdb", "storage": {"size": "1Gi", "deletionPolicy": "Retain"}}
_CLAIMED: Object = {"gcsFaultToleranceOptions": _CLAIM}
_KEPT: Object = {"gcsFaultToleranceOptions": dict(REDIS)}
_PROTECTED: Object = {names.ANNOTATION_PROTECT_HEAD: "true"}
_GATEWAY: Object = {
    "upgradeStrategy": INCREMENTAL,
    "rayClusterConfig": {"enableInTreeAutoscaling": True},
}
_SUSPENDED: Object = {"suspend": True}

CLUSTER = (
    Refusal("services", "create"),
    Refusal("services", "patch", then=_drifts("Service")),
    Refusal("serviceaccounts", "create", _AUTOSCALED),
    Refusal("roles", "create", _AUTOSCALED),
    Refusal("roles", "patch", _AUTOSCALED, _drifts("Role")),
    Refusal("rolebindings", "create", _AUTOSCALED),
    Refusal("rolebindings", "patch", _AUTOSCALED, _drifts("RoleBinding")),
    Refusal("ingresses", "create", _INGRESS),
    Refusal("ingresses", "patch", _INGRESS, _drifts("Ingress")),
    Refusal("routes", "create", _INGRESS),
    Refusal("routes", "patch", _INGRESS, _drifts("Route")),
    Refusal("networkpolicies", "create", _POLICY),
    Refusal("networkpolicies", "patch", _POLICY, _drifts("NetworkPolicy")),
    Refusal("networkpolicies", "delete", _POLICY, _edited({"networkPolicy": None})),
    Refusal("poddisruptionbudgets", "create", annotations=_PROTECTED),
    Refusal("poddisruptionbudgets", "patch", {}, _drifts("PodDisruptionBudget"), _PROTECTED),
    Refusal("poddisruptionbudgets", "delete", {}, _unprotected, _PROTECTED),
    Refusal("secrets", "create", {"authOptions": {"mode": "token"}}),
    Refusal("persistentvolumeclaims", "create", _CLAIMED),
    Refusal(
        "persistentvolumeclaims",
        "patch",
        _CLAIMED,
        _edited({"gcsFaultToleranceOptions": {"storage": {"deletionPolicy": "DeleteWithCluster"}}}),
    ),
    Refusal("pods", "create"),
    Refusal("pods", "delete", then=_groups(replicas=0, minReplicas=0)),
    Refusal("pods", "delete", then=_groups(suspend=True)),
    Refusal("pods", "delete", then=_edited(_SUSPENDED, {"workerGroupSpecs": []})),
    Refusal("pods", "delete", then=_head_ends),
    Refusal("pods", "delete", then=_worker_ends),
    Refusal("pods", "delete", _KEPT, _deleted),
    Refusal("rayclusters", "patch", _KEPT),
    Refusal("rayclusters", "patch", _KEPT, _deleted),
    Refusal("jobs", "create", _KEPT, _deleted),
    Refusal("controllerrevisions", "create", _ROLLED),
    Refusal("controllerrevisions", "patch", _ROLLED, _groups(labels={"zone": "c"})),
)
JOB = (
    Refusal("rayclusters", "create"),
    Refusal("rayclusters", "delete", {"suspend": False}, _edited(_SUSPENDED)),
    Refusal("rayclusters", "delete", {"suspend": False, "backoffLimit": 1}, _head_ends),
    Refusal("jobs", "create", {"submissionMode": "K8sJobMode"}),
    Refusal(
        "jobs", "delete", {"submissionMode": "K8sJobMode", "suspend": False}, _edited(_SUSPENDED)
    ),
    Refusal("jobs", "delete", {"submissionMode": "K8sJobMode", "suspend": False}, _head_ends),
    Refusal("services", "create"),
    Refusal("services", "patch", then=_drifts("Service")),
    Refusal("rayjobs", "patch"),
)
SERVICE = (
    Refusal("rayclusters", "create"),
    Refusal("rayclusters", "patch", then=_groups(replicas=4)),
    Refusal("rayclusters", "delete", {}, _upgraded),
    Refusal("rayclusters", "delete", {}, _edited(_SUSPENDED)),
    Refusal("services", "create"),
    Refusal("services", "patch", then=_drifts("Service")),
    Refusal("services", "delete", {}, _edited(_SUSPENDED)),
    Refusal("gateways", "create", _GATEWAY),
    Refusal("gateways", "patch", _GATEWAY, _drifts("Gateway")),
    Refusal("gateways", "delete", _GATEWAY, _edited({"upgradeStrategy": {"type": "NewCluster"}})),
    Refusal("httproutes", "create", _GATEWAY),
    Refusal("httproutes", "patch", _GATEWAY, _drifts("HTTPRoute")),
    Refusal("httproutes", "delete", _GATEWAY, _edited({"upgradeStrategy": {"type": "NewCluster"}})),
    Refusal("pods", "patch", {"excludeHeadPodFromServeSvc": True}),
    Refusal("pods", "patch", {}, _edited({"excludeHeadPodFromServeSvc": True})),
)
_EVERY_MINUTE: Object = {"schedule": "* * * * *", "suspend": False}
CRON = (
    Refusal("rayjobs", "create", _EVERY_MINUTE),
    Refusal("rayjobs", "delete", {**_EVERY_MINUTE, "successfulJobsHistoryLimit": 0}),
)
REFUSALS = {"RayCluster": CLUSTER, "RayJob": JOB, "RayService": SERVICE, "RayCronJob": CRON}


def refused(random: Random, found: Object, at: float) -> list[Step]:
    """One write is refused when it is needed: a webhook says no to it for a while."""
    chosen = random.choice(REFUSALS[found["kind"]])
    with_fields(found["spec"], copy.deepcopy(chosen.fields))
    if chosen.annotations:
        found["metadata"].setdefault("annotations", {}).update(chosen.annotations)
    seconds = random.choice([5.0, 20.0])
    begins = round(at + 5.0, 2)
    if found["kind"] == "RayService" and chosen.then is not _nothing:
        begins = round(at + 20.0, 2)  # it needs a cluster that serves
    if chosen.then is _nothing:
        begins = 1.2
    if found["kind"] == "RayCronJob":
        begins, seconds = 59.0, random.choice([30.0, 90.0])
    args = {"verb": chosen.verb, "plural": chosen.plural, "seconds": seconds}
    return [Step(at=begins, do="deny", args=args), *chosen.then(random, found, begins + 0.1)]


def with_fields(spec: Object, fields: Object) -> None:
    """Set fields; those of an object are added to what it has."""
    for name, value in fields.items():
        merge = isinstance(value, dict) and name != "upgradeStrategy"
        spec[name] = {**(spec.get(name) or {}), **value} if merge else value


def dashboard_refuses(random: Random, found: Object, at: float) -> list[Step]:
    """A dashboard takes nothing for a while, when a job or a Serve config is submitted, or a job must be stopped."""
    found["spec"]["suspend"] = False
    job = found["kind"] == "RayJob"
    args = {"topic": "jobs" if job else "serve", "how": random.choice(["read-only", "500"])}
    begins = 1.5 if random.random() < 0.5 else round(at + 8.0, 2)
    if job:
        found["spec"]["submissionMode"] = "HTTPMode"
    steps = [Step(at=begins, do="dashboard", args={**args, "seconds": random.choice([20.0, 60.0])})]
    if begins > 2.0:
        change = {"suspend": True} if job else {"serveConfigV2": _OTHER_CONFIG}
        steps.append(edit(found, begins + 0.5, change))
    return steps


_OTHER_CONFIG = "applications:\n  - name: app\n    import_path: demo.other\n"
