"""Steps that belong together: what is dangerous only in combination, and what chance alone would seldom draw.

A plot fits objects of one kind. It may change the object before it is created, and adds steps to the story.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from simulation.specs import a_template
from simulation.story import Step

Object = dict[str, Any]
Plot = Callable[[Random, Object, float], list[Step]]
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


def _named(found: Object) -> Object:
    return {"kind": found["kind"], "name": found["metadata"]["name"]}


def _edit(found: Object, at: float, spec: Object) -> Step:
    return Step(at=round(at, 2), do="edit", args={**_named(found), "spec": spec})


def _new_image(random: Random) -> Object:
    return {"headGroupSpec": {"template": a_template(random)}}


def recreated(random: Random, found: Object, at: float) -> list[Step]:
    """The spec of a cluster changes that is recreated for it; perhaps twice."""
    found["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    edits = [_edit(found, at, _new_image(random))]
    if random.random() < 0.5:
        edits.append(_edit(found, at + random.choice([0.1, 3.0, 15.0]), _new_image(random)))
    return edits


ROLLING: tuple[Object, ...] = (
    {},
    {"maxSurge": 1, "maxUnavailable": 0},
    {"maxSurge": 0, "maxUnavailable": 1},
    {"maxSurge": 2, "maxUnavailable": 1, "minReadySeconds": 3},
    {"groups": [{"groupName": "a", "maxSurge": 0, "maxUnavailable": 1}], "paused": False},
    {"groups": [{"groupName": "a", "maxSurge": 2}]},
    {"maxSurge": "50%", "progressDeadlineSeconds": 3600, "onFailure": "stop", "drainSeconds": 5},
)


def rolled(random: Random, found: Object, at: float) -> list[Step]:
    """Workers get a new image a few at a time; perhaps another one on the way."""
    rolling = copy.deepcopy(random.choice(ROLLING))
    groups = found["spec"]["workerGroupSpecs"]
    if not groups:
        rolling.pop("groups", None)
    found["spec"]["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    if random.random() < 0.5:
        annotations = found["metadata"].setdefault("annotations", {})
        annotations["manta.ray.io/rolling-update-head"] = "allow"
    for group in groups:
        group |= {"replicas": random.choice([2, 3]), "minReplicas": 0, "maxReplicas": 10}
        group.pop("suspend", None)
    pauses = [0.0, random.choice([1.0, 4.0, 15.0])][: random.choice([1, 1, 2])]
    edits = []
    for pause in pauses:
        new = [{**group, "template": a_template(random)} for group in groups]
        head = _new_image(random) if random.random() < 0.5 else {}
        edits.append(_edit(found, at + 5.0 + pause, {"workerGroupSpecs": new, **head}))
    return edits


def cleanup_stuck(random: Random, found: Object, at: float) -> list[Step]:
    """A cluster with fault tolerance is deleted, and its head does not die, or the Pod that cleans up Redis does not
    start, or fails."""
    found["spec"]["gcsFaultToleranceOptions"] = dict(REDIS)
    found["spec"]["suspend"] = False
    stuck = [
        ("head", "stop=never"),
        ("redis-cleanup", "start=never"),
        ("redis-cleanup", "exit=1@5"),
    ]
    role, script = random.choice([stuck[0], *stuck])
    args = {"role": role, "script": script, "seconds": random.choice([60.0, 900.0, 900.0])}
    at = 1.5 if role == "head" else at
    gone = Step(at=round(at + 5.0, 2), do="delete", args=_named(found))
    return [Step(at=round(at, 2), do="pod_script", args=args), gone]


def protected(random: Random, found: Object, at: float) -> list[Step]:
    """The head gets a PodDisruptionBudget, and loses it again."""
    name = "manta.ray.io/protect-head"
    return [
        Step(at=round(when, 2), do="annotate", args={**_named(found), "annotations": {name: value}})
        for when, value in ((at, "true"), (at + random.choice([5.0, 30.0]), None))
    ]


def out_of_bounds(random: Random, found: Object, at: float) -> list[Step]:
    """The replicas of a group are fewer than its least, or more than its most."""
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"minReplicas": 1, "maxReplicas": 2, "replicas": random.choice([0, 4])}
        group.pop("suspend", None)
    changed = [{**group, "replicas": random.choice([0, 1, 3])} for group in groups]
    return [_edit(found, at, {"workerGroupSpecs": changed})] if groups else []


def shrunk(random: Random, found: Object, at: float) -> list[Step]:
    """A group grows, and shrinks by a few."""
    groups = found["spec"]["workerGroupSpecs"]
    for group in groups:
        group |= {"replicas": random.choice([3, 4]), "maxReplicas": 10, "minReplicas": 0}
    fewer = [{**group, "replicas": group["replicas"] - random.choice([1, 2])} for group in groups]
    return [_edit(found, at, {"workerGroupSpecs": fewer})] if groups else []


AROUND: dict[str, tuple[str, Object]] = {
    "ingresses": ("Ingress", {"headGroupSpec": {"enableIngress": True}}),
    "roles": ("Role", {"enableInTreeAutoscaling": True}),
    "rolebindings": ("RoleBinding", {"enableInTreeAutoscaling": True}),
    "serviceaccounts": ("", {"enableInTreeAutoscaling": True}),
    "networkpolicies": ("NetworkPolicy", {"networkPolicy": {"mode": "DenyAll"}}),
    "secrets": ("", {"authOptions": {"mode": "token"}}),
    "services": ("Service", {}),
    "pods": ("", {}),
    "rayclusters": ("", {}),
}
"""What surrounds the Pods of a cluster: the kind, if users can make it drift, and the fields that it needs."""


def _with_fields(spec: Object, fields: Object) -> None:
    for name, value in fields.items():
        spec[name] = {**spec.get(name, {}), **value} if isinstance(value, dict) else value


def refused(random: Random, found: Object, at: float) -> list[Step]:
    """Objects of one kind are refused when they are needed, when they have drifted, or when they must go."""
    plural = random.choice(sorted(AROUND))
    kind, fields = AROUND[plural]
    _with_fields(found["spec"], fields)
    verb = random.choice(["create", "patch", "delete"] if kind else ["create", "delete"])
    seconds = random.choice([5.0, 20.0])
    at = {"create": 1.2}.get(verb, round(at + 5.0, 2))
    deny = Step(at=at, do="deny", args={"verb": verb, "plural": plural, "seconds": seconds})
    if verb == "create":
        return [deny]
    if verb == "patch":
        return [deny, Step(at=at + 0.1, do="drift", args={"kind": kind, "number": 0})]
    groups = [{**group, "replicas": 0} for group in found["spec"].get("workerGroupSpecs") or ()]
    going: list[Object] = [{"suspend": True}, {"workerGroupSpecs": groups}, {"networkPolicy": None}]
    return [deny, _edit(found, at + 0.1, random.choice(going))]


CHILDREN = {
    "RayJob": ("rayclusters", "jobs", "services"),
    "RayService": ("rayclusters", "services", "gateways", "httproutes", "pods"),
    "RayCronJob": ("rayjobs",),
}


def child_refused(random: Random, found: Object, at: float) -> list[Step]:
    """What a job, a service or a schedule needs is refused for a while."""
    plural = random.choice(CHILDREN[found["kind"]])
    if plural in ("gateways", "httproutes"):
        found["spec"]["upgradeStrategy"] = dict(INCREMENTAL)
        found["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    verb = random.choice(["create", "create", "patch", "delete"])
    seconds = random.choice([20.0, 60.0])
    return [Step(at=1.2, do="deny", args={"verb": verb, "plural": plural, "seconds": seconds})]


def meddled(random: Random, found: Object, at: float) -> list[Step]:
    """Somebody changes, or deletes, what surrounds the Pods."""
    kind, fields = AROUND[random.choice([one for one in sorted(AROUND) if AROUND[one][0]])]
    _with_fields(found["spec"], fields)
    do = random.choice(["drift", "drift", "delete_child"])
    return [Step(at=round(at + 5.0, 2), do=do, args={"kind": kind, "number": random.randrange(2)})]


def upgraded_in_steps(random: Random, found: Object, at: float) -> list[Step]:
    """A service moves to a new cluster in steps; the user may change their mind on the way."""
    found["spec"]["upgradeStrategy"] = dict(INCREMENTAL)
    found["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    found["spec"].pop("suspend", None)
    steps = [_edit(found, at + 20.0, {"rayClusterConfig": _new_image(random)})]
    if random.random() < 0.3:
        later = at + 20.0 + random.choice([3.0, 12.0, 25.0])
        steps.append(_edit(found, later, {"rayClusterConfig": _new_image(random)}))
    elif random.random() < 0.3:
        steps.append(_edit(found, at + 60.0, {"upgradeStrategy": {"type": "NewCluster"}}))
    return steps


WAITING: tuple[Object, ...] = (
    {"automatic": False},
    {"automatic": False, "gatewayClassName": "manta"},
    {
        "analysis": {
            "intervalSeconds": 5,
            "windowSeconds": 20,
            "minRequests": 1,
            "maxErrorPercent": 1.0,
            "maxP95Milliseconds": 100,
            "prometheus": {"query": "errors", "max": 1.0},
        }
    },
)
"""Canaries that wait for a person, or for figures that the fake Ray does not give."""


def _without_autoscaler(spec: Object) -> None:
    """The canary of an autoscaled cluster waits for the autoscaler to take idle workers away: Ray has none here."""
    for field in ("enableInTreeAutoscaling", "autoscalerOptions"):
        spec.pop(field, None)
    for group in spec.get("workerGroupSpecs") or ():
        for field in ("priority", "idleTimeoutSeconds"):
            group.pop(field, None)


def upgraded_as_canary(random: Random, found: Object, at: float) -> list[Step]:
    """Pods of a new cluster get requests in steps, behind one Service; the user may stop it, or change the spec."""
    weights = random.choice([(20, 50), (50,)])
    steps: list[Object] = [{"weight": weight, "pauseSeconds": 5} for weight in weights]
    options: Object = {"steps": steps, "maxSurge": random.choice([1, "50%"])}
    if random.random() < 0.2:
        options |= copy.deepcopy(random.choice(WAITING))
        steps[0]["untilPromoted"] = True
    found["spec"]["upgradeStrategy"] = {"type": "Canary", "canaryUpgradeOptions": options}
    found["spec"].pop("suspend", None)
    _without_autoscaler(found["spec"]["rayClusterConfig"])
    edits = [_edit(found, at + 20.0, {"rayClusterConfig": _new_image(random)})]
    if random.random() < 0.3:
        later = at + 20.0 + random.choice([3.0, 12.0, 25.0])
        edits.append(_edit(found, later, {"rayClusterConfig": _new_image(random)}))
    return edits


def upgraded_often(random: Random, found: Object, at: float) -> list[Step]:
    """A service gets a new spec before the last one serves."""
    found["spec"].pop("suspend", None)
    pauses = [0.0, random.choice([1.0, 8.0]), random.choice([12.0, 30.0])]
    return [_edit(found, at + pause, {"rayClusterConfig": _new_image(random)}) for pause in pauses]


def tick_disturbed(random: Random, found: Object, at: float) -> list[Step]:
    """The operator dies, or a reply gets lost, when a schedule starts a job."""
    found["spec"] |= {"schedule": "* * * * *", "suspend": False}
    when = random.choice([59.9, 119.9])
    crash = Step(
        at=when,
        do="crash",
        args={"replica": 0, "writes": random.choice([1, 1, 2]), "down": random.choice([0.1, 3.0])},
    )
    lost = Step(at=when, do="lose_reply", args={"verb": "create", "plural": "rayjobs", "times": 1})
    return [random.choice([crash, crash, lost])]


def forgotten(random: Random, found: Object, at: float) -> list[Step]:
    """Ray forgets a job that was submitted over HTTP, while it runs."""
    if "rayClusterSpec" not in found["spec"]:
        return []
    found["spec"] |= {"submissionMode": "HTTPMode", "suspend": False}
    return [Step(at=round(6.0 + random.random() * 8, 2), do="forget", args={"number": 0})]


def head_lost(random: Random, found: Object, at: float) -> list[Step]:
    """The head of a running job is evicted."""
    found["spec"] |= {"suspend": False}
    do = random.choice(["evict", "end_container"])
    args = {"role": "head", "number": 0} | ({"code": 137} if do == "end_container" else {})
    return [Step(at=round(6.0 + random.random() * 10, 2), do=do, args=args)]


def submitter_lost(random: Random, found: Object, at: float) -> list[Step]:
    """The Pod of the submitter is evicted while its job runs, and is not started again."""
    found["spec"] |= {
        "submissionMode": "K8sJobMode",
        "submitterConfig": {"backoffLimit": 0},
        "suspend": False,
    }
    at = round(6.0 + random.random() * 10, 2)
    return [Step(at=at, do="lose_submitter", args={"number": 0})]


def pods_fail(random: Random, found: Object, at: float) -> list[Step]:
    """All Pods of a role are evicted as soon as they run, for a while."""
    args = {"role": random.choice(["head", "worker"]), "script": "evict@0.2", "seconds": 90.0}
    return [Step(at=1.5, do="pod_script", args=args)]


def hosts_lost(random: Random, found: Object, at: float) -> list[Step]:
    """One host of a replica of several is lost."""
    for group in found["spec"]["workerGroupSpecs"]:
        group |= {"numOfHosts": 2, "replicas": 2, "minReplicas": 0, "maxReplicas": 10}
    number = random.randrange(4)
    return [
        Step(at=round(at + 4.0, 2), do="evict", args={"role": "worker", "number": number}),
        Step(at=round(at + 4.1, 2), do="delete_child", args={"kind": "Pod", "number": number}),
    ][: random.choice([1, 1, 2])]


def too_large(random: Random, found: Object, at: float) -> list[Step]:
    """No node has room for the Pods of one group, or for the head."""
    groups = [found["spec"]["headGroupSpec"], *found["spec"]["workerGroupSpecs"]]
    for container in random.choice(groups)["template"]["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": "1000"}, "limits": {"cpu": "1000"}}
    return []


def list_refused(random: Random, found: Object, at: float) -> list[Step]:
    """The watch of Pods breaks, cannot resume, and the list that it needs is refused for a while."""
    args = {"plural": "pods", "expire": True, "refused": random.choice([3, 10, 20])}
    return [Step(at=round(at + 5.0, 2), do="break_watches", args=args)]


PLOTS: dict[str, tuple[tuple[Plot, tuple[str, ...]], ...]] = {
    "RayCluster": (
        (recreated, ("user", "crash", "server", "watch", "leases", "nodes", "mixed")),
        (rolled, ("user", "crash", "server", "watch", "leases", "nodes", "mixed")),
        (rolled, ("user", "crash", "watch")),
        (cleanup_stuck, ("nodes", "mixed")),
        (pods_fail, ("nodes",)),
        (too_large, ("user", "policy", "nodes")),
        (hosts_lost, ("nodes", "crash", "watch")),
        (protected, ("user", "policy", "crash")),
        (refused, ("policy", "policy", "mixed")),
        (meddled, ("user", "crash", "server", "leases")),
        (out_of_bounds, ("user", "policy", "server")),
        (shrunk, ("user", "crash", "server", "watch", "leases")),
        (list_refused, ("watch", "mixed")),
    ),
    "RayService": (
        (child_refused, ("policy",)),
        (upgraded_in_steps, ("user", "crash", "server", "watch", "leases", "ray", "mixed")),
        (upgraded_as_canary, ("user", "crash", "server", "watch", "leases", "ray", "mixed")),
        (upgraded_often, ("user", "crash", "server", "watch", "nodes", "mixed")),
    ),
    "RayJob": (
        (child_refused, ("policy",)),
        (forgotten, ("ray", "mixed")),
        (head_lost, ("nodes", "ray", "mixed")),
        (submitter_lost, ("user", "crash", "watch", "nodes")),
    ),
    "RayCronJob": (
        (child_refused, ("policy",)),
        (tick_disturbed, ("crash", "server", "mixed", "clock")),
    ),
}
"""By kind: the plots, and the profiles that have them."""


def plotted(random: Random, profile: str, objects: list[Object]) -> list[Step]:
    """The steps of one plot that fits; none if nothing does."""
    found = random.choice(objects)
    fitting = [plot for plot, profiles in PLOTS[found["kind"]] if profile in profiles]
    if not fitting:
        return []
    return random.choice(fitting)(random, found, 4.0 + random.random() ** 2 * 30)
